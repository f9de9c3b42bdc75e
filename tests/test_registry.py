"""Dissectors are found by key: imported when asked for, added by users, never two for one key."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from kshark.errors import SchemaError
from kshark.registry import Registry
from kshark.schema import Api, Versions, api, int8, struct
from kshark_dissectors.index import INDEX
from tests.shared import ROOT


def example(key: int, name: str = "Example") -> Api:
    return api(key, name, versions="0-1", flexible="1+", request=struct(int8("a")), response=struct())


def test_every_api_of_the_index_is_what_the_index_says() -> None:
    registry = Registry()
    for key, (name, module, versions) in INDEX.items():
        found = registry.api(key)
        assert (found is None) == (module == "")
        if found is not None:
            assert (found.key, found.name, str(found.versions)) == (key, name, versions)
            assert registry.versions(key) == found.versions


def test_every_dissector_file_is_in_the_index() -> None:
    files = {path.stem for path in (ROOT / "dissectors/kshark_dissectors").glob("*.py") if path.stem != "__init__"}
    with_dissector = {name for name in files if hasattr(import_module(f"kshark_dissectors.{name}"), "DISSECTOR")}
    assert with_dissector == {module for _, module, _ in INDEX.values() if module}


def test_names_and_versions_are_known_without_importing_a_dissector() -> None:
    program = (
        "import sys; from kshark.registry import Registry; registry = Registry();"
        "assert registry.knows(78, 2) and not registry.knows(78, 3) and not registry.knows(9999, 0) and not "
        "registry.knows(-1, 0);"
        "assert registry.name(78) == 'ShareFetch' and registry.find('sharefetch') == 78 and registry.name(9999) is "
        "None;"
        "print(sorted(name for name in sys.modules if name.startswith('kshark_dissectors.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "['kshark_dissectors.index']\n"


def test_only_the_apis_met_are_imported() -> None:
    program = (
        "import sys; from kshark.registry import Registry; Registry().api(12);"
        "print(sorted(name for name in sys.modules if name.startswith('kshark_dissectors.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "['kshark_dissectors.enums', 'kshark_dissectors.heartbeat', 'kshark_dissectors.index']\n"


def test_headers_come_from_the_dissectors_too() -> None:
    registry = Registry(installed=False)
    assert (registry.request_header.name, registry.response_header.name) == ("RequestHeader", "ResponseHeader")


def test_a_dissector_in_a_file_is_added(tmp_path: Path) -> None:
    file = tmp_path / "gossip.py"
    file.write_text(
        "from kshark.schema import api, int32, struct\n"
        "DISSECTOR = api(30000, 'Gossip', versions='0-2', flexible='1+', request=struct(int32('round')), "
        "response=struct())\n"
    )
    registry = Registry([file])
    found = registry.api(30000)
    assert found is not None
    assert (found.name, registry.name(30000), registry.find("Gossip")) == ("Gossip", "Gossip", 30000)
    assert registry.knows(30000, 2)
    assert not registry.knows(30000, 3)
    assert registry.versions(30000) == Versions(0, 2)
    assert registry.names()[30000] == "Gossip"


def test_keys_and_names_that_are_taken_are_refused() -> None:
    registry = Registry(installed=False)
    with pytest.raises(SchemaError, match=r"mine\.py: api key 78 already belongs to ShareFetch"):
        registry.add(example(78), "mine.py")
    with pytest.raises(SchemaError, match=r"mine\.py: the name sharefetch already belongs to api key 78"):
        registry.add(example(30000, "sharefetch"), "mine.py")
    registry.add(example(30000), "mine.py")
    with pytest.raises(SchemaError, match=r"yours\.py: api key 30000 already belongs to Example"):
        registry.add(example(30000, "Other"), "yours.py")
    assert Registry(installed=False).api(30000) is None


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("x = 1\n", "no DISSECTOR made by kshark.schema.api"),
        ("DISSECTOR = 5\n", "no DISSECTOR made by kshark.schema.api"),
        ("x = 1\nx +\n", r"broken\.py, line 2: SyntaxError: invalid syntax"),
        ("\n\nraise RuntimeError('no')\n", r"broken\.py, line 3: RuntimeError: no"),
        ("\nfrom kshark.schema import int8\nint8('A')\n", r"broken\.py, line 3: field name 'A' is not snake_case"),
        ("def f(): raise ValueError('deep')\n\nf()\n", r"broken\.py, line 1: ValueError: deep"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, source: str, complaint: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(source)
    with pytest.raises(SchemaError, match=complaint) as refused:
        Registry([file])
    assert str(refused.value).startswith(str(file))


def test_a_file_that_is_not_there_or_no_python(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="there is no such file"):
        Registry([tmp_path / "absent.py"])
    with pytest.raises(SchemaError, match="not a Python file"):
        Registry([tmp_path / "notes.txt"])


def test_installed_packages_add_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "gossip-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gossip\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kshark.dissectors]\ngossip = gossip_dissector:DISSECTOR\n")
    (tmp_path / "gossip_dissector.py").write_text(
        "from kshark.schema import api, struct\n"
        "DISSECTOR = api(30001, 'Gossip', versions='0', flexible='none', request=struct(), response=struct())\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert Registry().name(30001) == "Gossip"
    assert Registry(installed=False).name(30001) is None
    (tmp_path / "gossip_dissector.py").write_text("raise RuntimeError('broken')\n")
    sys.modules.pop("gossip_dissector")
    with pytest.raises(
        SchemaError,
        match=r"entry point gossip of kshark\.dissectors: gossip_dissector\.py, line 1: RuntimeError: broken",
    ):
        Registry()
    sys.modules.pop("gossip_dissector", None)

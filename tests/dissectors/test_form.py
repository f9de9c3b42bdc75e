"""Dissectors are facts, not programs: assignments of calls and literals, one file an API, found through the index."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kshark_dissectors
from kshark.schema import versions_of
from kshark_dissectors.enums import ApiKey
from kshark_dissectors.index import INDEX
from kshark_dissectors.releases import SPOKEN
from tests.dissectors.schema_rows import WRITTEN, dissector

FOLDER = Path(kshark_dissectors.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))
INSIDE = sorted((FOLDER / "embedded").glob("*.py"))
#: What is no API: numbers with names, what errors mean, what stands before bodies, the list of keys, structures in
#: several APIs, old names, topics that need not be told, which release speaks what, how a share group lives, which
#: errors an API sends and why, what proposals brought, what fields mean.
SHARED = {
    "__init__",
    "api_errors",
    "enums",
    "error_causes",
    "errors",
    "headers",
    "history",
    "index",
    "kips",
    "meanings",
    "other_names",
    "structs",
    "streams_structs",
    "topics",
    "releases",
    "permissions",
    "share_life",
    "sensitive",
}

FACTS = (
    *(ast.Module, ast.Import, ast.ImportFrom, ast.alias, ast.Assign, ast.AnnAssign, ast.ClassDef, ast.Expr),
    *(
        ast.Call,
        ast.keyword,
        ast.Constant,
        ast.Name,
        ast.Attribute,
        ast.Subscript,
        ast.Tuple,
        ast.List,
        ast.Set,
        ast.Dict,
        ast.Starred,
    ),
    *(ast.UnaryOp, ast.USub, ast.expr_context),
)


@pytest.mark.parametrize("path", FILES + INSIDE, ids=lambda path: path.stem)
def test_a_dissector_has_no_control_flow(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert [(node.lineno, type(node).__name__) for node in ast.walk(tree) if not isinstance(node, FACTS)] == []
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert all(
        isinstance(base, ast.Name) and base.id in ("IntEnum", "NamedTuple") for node in classes for base in node.bases
    )


def test_every_api_of_the_index_has_its_file_and_every_file_its_key() -> None:
    modules = sorted(module for _, module, _ in INDEX.values() if module)
    assert sorted(path.stem for path in FILES if path.stem not in SHARED) == modules


def test_keys_and_names_are_each_there_once() -> None:
    names = [name for name, _, _ in INDEX.values()]
    assert len(set(names)) == len(names)
    assert list(INDEX) == sorted(INDEX)


@pytest.mark.parametrize("key", sorted(WRITTEN))
def test_a_dissector_and_the_index_tell_the_same(key: int) -> None:
    name, module, versions = INDEX[key]
    found = dissector(key)
    assert (found.key, found.name, found.versions) == (key, name, versions_of(versions))
    assert module == re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    introduction = importlib.import_module(f"kshark_dissectors.{module}").__doc__ or ""
    assert introduction.startswith(f"{name} (API {key}): ")
    assert introduction.endswith(".")


def test_only_these_wires_differ_from_all_others() -> None:
    found = {key: dissector(key) for key in WRITTEN}
    assert {key: api.response_header for key, api in found.items() if api.response_header is not None} == {18: 0}
    assert {key: api.fallback for key, api in found.items() if api.fallback is not None} == {18: (35, 0)}
    assert {key: api.one_way for key, api in found.items() if api.one_way is not None} == {0: ("acks", 0)}
    assert {key: api.software for key, api in found.items() if api.software} == {
        18: ("client_software_name", "client_software_version")
    }
    assert {key for key, api in found.items() if api.repeated} == {18}
    assert {key: str(api.then_raw) for key, api in found.items() if 0 in api.then_raw} == {17: "0"}
    assert {key: dict(api.request_header) for key, api in found.items() if api.request_header} == {7: {0: 0}}
    assert {key: sorted(api.response.older) for key, api in found.items() if api.response.older} == {87: [0]}
    assert all(not api.request.older for api in found.values())


def test_importing_one_dissector_brings_the_vocabulary_and_nothing_heavy() -> None:
    code = "import sys, kshark_dissectors.share_fetch; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in loaded if name.split(".")[0] in ("kshark_dissectors", "kshark", "numpy")} <= {
        *("kshark_dissectors", "kshark_dissectors.enums", "kshark_dissectors.structs", "kshark_dissectors.share_fetch"),
        *("kshark", "kshark.errors", "kshark.limits", "kshark.schema"),
    }


def test_api_keys_have_the_names_of_the_index() -> None:
    assert [key.value for key in ApiKey] == list(SPOKEN)
    for key in ApiKey:
        assert key.name == re.sub(r"(?<!^)(?=[A-Z])", "_", INDEX[key][0]).upper()

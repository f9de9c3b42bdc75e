"""What is under which licence: kshark's own is Apache-2.0; scapy, under the GPL, is of the extra `live` alone."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution

import pytest

from tests.patience import PATIENCE_S
from tests.shared import CAPTURES, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NOTICE = " ".join((ROOT / "NOTICE").read_text().split())
#: The text of https://www.apache.org/licenses/LICENSE-2.0.txt.
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def named(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return found[0].lower()


def test_the_licence_is_apache_2_whole_and_unchanged() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2


def test_scapy_is_of_the_extra_live_alone() -> None:
    assert "scapy" not in map(named, PROJECT["dependencies"])
    extras = PROJECT["optional-dependencies"]
    assert [extra for extra, packages in extras.items() if "scapy" in map(named, packages)] == ["live"]
    contain = [
        extra
        for extra, packages in extras.items()
        if any(re.search(r"kshark\[.*\b(live|all)\b", it) for it in packages)
    ]
    assert contain == ["all", "dev"]
    assert "extras `all` and `dev`, which contain `live`" in NOTICE


def test_no_command_but_live_imports_scapy() -> None:
    """Not even those that read or write captures; test_house knows the one file that may."""
    code = (
        "import sys\nsys.modules['scapy'] = None\nfrom kshark.cli import COMMANDS, main\n"
        "from importlib import import_module\n[import_module(f'kshark.cli.{name}') for name in COMMANDS]\n"
        f"print(main(['check', '-q', {str(CAPTURES / 'adv-epochs.pcap')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.splitlines()[-1] == "1"
    assert "kshark/capture/live/filters.py" in NOTICE


@pytest.mark.parametrize("package", [*map(named, PROJECT["dependencies"])])
def test_the_notice_tells_of_every_licence_that_is_not_permissive(package: str) -> None:
    try:
        metadata = distribution(package).metadata
    except PackageNotFoundError:
        pytest.skip(f"{package} is not for this Python")
    licence = " ".join(
        [
            *metadata.get_all("License-Expression", []),
            *metadata.get_all("License", []),
            *metadata.get_all("Classifier", []),
        ]
    )
    if "GPL" in licence:
        assert package in NOTICE

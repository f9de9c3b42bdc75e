"""Whoever follows the page on rules ends with rules that every command knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.analysis.copied import KSHARK, RULES, SPARK, add, codes, copied, run
from tests.analysis.talks import METADATA, sent
from tests.conversation import Conversation
from tests.packets import pcap
from tests.shared import ROOT

README = (ROOT / RULES / "README.md").read_text()
#: A Metadata request of version 0 for one topic.
NO_UTF8 = b"\0\0\0\x01\0\x01\xff"
ADDED = {"NEGATIVE_WAIT", "TEXT_UNREADABLE", "SESSION_UNUSED"}


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product with what the page adds, and a capture that all of these rules have something to say of."""
    folder = copied(tmp_path_factory.mktemp("followed"))
    of_exchange, of_bytes, function, of_machine = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    add(folder / RULES / "requests.py", row=of_exchange)
    add(folder / RULES / "wire.py", row=of_bytes)
    add(folder / RULES / "recovery.py", row=of_machine, function=function)
    talk = Conversation()
    a = talk.member("a")
    sent(a.connection, METADATA, 0, NO_UTF8)
    a.share_fetch(0, max_wait_ms=-1).answered()
    a.share_fetch(0).answered()
    (folder / "talk.pcap").write_bytes(pcap(talk.wire.packets))
    return folder


def test_check_finds_what_the_new_rules_are_about(followed: Path) -> None:
    assert codes(run(followed, *KSHARK, "check", "-T", "json", "talk.pcap")) >= ADDED


def test_explain_tells_the_new_rules(followed: Path) -> None:
    told = run(followed, *KSHARK, "explain", *sorted(ADDED))
    assert " with max_wait_ms < 0" in told
    assert (
        "judges     a share session of a member with a broker (KIP-932)\nverdict    always a note: no rule is broken"
        in told
    )


@pytest.mark.spark
def test_spark_finds_what_check_finds(followed: Path) -> None:
    here = run(followed, *KSHARK, "check", "-T", "json", "talk.pcap")
    assert run(followed, *SPARK, "check", "-T", "json", "talk.pcap") == here

"""The page on rules, followed literally: every command knows the new rules, and what judges rules accepts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.copied import KSHARK, RULES, SPARK, add, codes, run
from tests.analysis.talks import METADATA, sent
from tests.conversation import Conversation
from tests.following import blocks, project, python, run_tests
from tests.packets import pcap

#: A Metadata request of version 0 for one topic.
NO_UTF8 = b"\0\0\0\x01\0\x01\xff"
ADDED = {"NEGATIVE_WAIT", "TEXT_UNREADABLE", "SESSION_WIDE"}
#: The tests that read every row or promise, and those of the three topics.
JUDGES = ("every_rule", "promises", "reactions", "rule", "triggers", "twins", "words", "recovery", "requests", "wire")


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with the rows and promises of the page, and a capture that breaks all of them."""
    folder = project(tmp_path_factory.mktemp("followed"))
    of_exchange, of_bytes, function, of_machine, promises = blocks(f"{RULES}/README.md")
    add(folder / RULES / "requests.py", row=of_exchange)
    add(folder / RULES / "wire.py", row=of_bytes)
    add(folder / RULES / "recovery.py", row=of_machine, function=function)
    (folder / "tests/analysis/rules/promises/page.py").write_text(promises)
    talk = Conversation()
    a = talk.member("a")
    sent(a.connection, METADATA, 0, NO_UTF8)
    a.share_fetch(0, max_wait_ms=-1).answered()
    a.share_fetch(0, range(1_001)).answered()
    (folder / "talk.pcap").write_bytes(pcap(talk.wire.packets))
    return folder


def test_check_finds_what_the_new_rules_are_about(followed: Path) -> None:
    assert codes(run(followed, *KSHARK, "check", "-T", "json", "talk.pcap")) >= ADDED


def test_explain_prints_the_new_rules(followed: Path) -> None:
    printed = run(followed, *KSHARK, "explain", *sorted(ADDED))
    assert " with max_wait_ms < 0" in printed
    assert (
        "judges     a share session of a member with a broker (KIP-932)\nverdict    always a note: not a violation"
        in printed
    )


@pytest.mark.slow
@pytest.mark.sweep
def test_what_judges_rules_accepts_them(followed: Path) -> None:
    write = "from tests.analysis.rules import catalogue, promises"
    python(followed, "-c", f"{write}; catalogue.write(); promises.write_sentences()")
    run_tests(followed, "-m", "not spark and not slow", *(f"tests/analysis/rules/test_{name}.py" for name in JUDGES))


@pytest.mark.spark
@pytest.mark.slow
def test_spark_finds_what_check_finds(followed: Path) -> None:
    here = run(followed, *KSHARK, "check", "-T", "json", "talk.pcap")
    assert run(followed, *SPARK, "check", "-T", "json", "talk.pcap") == here

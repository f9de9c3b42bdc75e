"""A capture that holds all traffic of its clients: a request outside it explains nothing. Whatever else is in doubt
stays in doubt."""

from __future__ import annotations

from collections import Counter

import pytest

from kshark import limits
from kshark.analysis import Analyzer
from kshark.analysis.facts.connections import Complete, ConnectionFacts
from kshark.face import pages
from kshark.model import Flow, Weird
from kshark.registry import Registry
from kshark.run import Run
from tests.analysis.coordinators import leader
from tests.analysis.rules.twins import talks
from tests.analysis.talks import opened, stranger
from tests.conversation import (
    INVALID_SHARE_SESSION_EPOCH,
    Conversation,
    Thinned,
    events,
    everything,
    findings,
    unheard,
    unknown,
    violation,
)
from tests.shared import SHARED, SHARED_CAPTURES, every

#: Conversations in which a request outside the capture is the only doubt.
HIDDEN = {
    "a_fenced_member_does_not_join_again",
    "a_client_may_have_continued_after_a_refusal",
    "a_client_continues_so_late_that_it_may_have_had_a_session",
}


def accused(talk: Conversation | Thinned, *, complete: bool) -> set[tuple[str, int]]:
    found = everything(talk, complete=complete)
    return {(it.code, it.packet) for it in found if it.verdict == "violation"}


def continued() -> tuple[Conversation, int]:
    """A client continues after a refusal, and the broker accepts that: a new session elsewhere would explain it."""
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk, a.share_fetch(1).answered().sent


def of_recovery(talk: Conversation | Thinned, *, complete: bool = True) -> list[tuple[str, str | None]]:
    found = findings(talk, complete=complete)
    return [(it.verdict, it.unknown_because) for it in found if it.code == "NO_RECOVERY"]


def test_a_request_outside_the_capture_is_no_excuse() -> None:
    talk, at = continued()
    assert [it for it in findings(talk) if it.code == "NO_RECOVERY"] == [unknown("NO_RECOVERY", at, "hidden_traffic")]
    complete = [it for it in findings(talk, complete=True) if it.code == "NO_RECOVERY"]
    assert complete == [violation("NO_RECOVERY", at, "client")]


def test_what_it_had_not_received_is_still_in_doubt() -> None:
    talk, _ = continued()
    assert of_recovery(unheard(talk)) == []


def test_missing_bytes_are_still_in_doubt() -> None:
    talk, _ = continued()
    packets = talk.exchanges[-1].packets
    assert of_recovery(talk.without_packets(packets)) != [("violation", None)]


@pytest.mark.parametrize("later", [False, True])
def test_bytes_that_are_missing_on_another_connection_of_the_host_are_in_doubt(later: bool) -> None:
    """The new session may have been opened there. A hole may show only after the request that it explains."""
    talk = Conversation()
    a = opened(talk)
    other = talk.connection()
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    lost = talk.member("b", connection=other, joined=False).share_fetch(0).answered()
    if not later:
        talk.member("b", connection=other, joined=False).share_fetch(1).answered()
    a.share_fetch(1).answered()
    talk.member("b", connection=other, joined=False).share_fetch(2 if not later else 1).answered()
    assert of_recovery(talk) == [("violation", None)]
    assert of_recovery(talk.without_packets(lost.all_packets)) == [("unknown", "gap")]


def test_what_waits_for_the_end_is_limited() -> None:
    talk = Conversation()
    a = opened(talk)
    for epoch in range(1, limits.WAITING_VERDICTS + 3):
        a.share_fetch(9999).answered(INVALID_SHARE_SESSION_EPOCH)
        a.share_fetch(epoch).answered()
    verdicts = Counter(of_recovery(talk))
    assert verdicts == {("violation", None): limits.WAITING_VERDICTS, ("unknown", "limit"): 2}


def test_dropped_packets_refute_the_statement() -> None:
    """A recorder counts them, and says so at the end of its file."""
    talk, _ = continued()
    analyzer = Analyzer(complete=True)
    found = analyzer.page(events(talk))
    assert "NO_RECOVERY" not in {it.code for it in found}  # only the end proves it
    found += analyzer.page([Weird("PACKETS_DROPPED", "capture", 99, 99, "3 packets")])
    found += analyzer.close()
    assert [(it.verdict, it.unknown_because) for it in found if it.code == "NO_RECOVERY"] == [
        ("unknown", "hidden_traffic")
    ]


def test_what_was_before_the_capture_is_still_in_doubt() -> None:
    talk = Conversation()
    a = stranger(talk)
    a.share_fetch(5).answered()
    a.share_fetch(9).answered(INVALID_SHARE_SESSION_EPOCH)
    assert "violation" not in {it.verdict for it in everything(talk, complete=True)}


def test_other_brokers_are_no_clients() -> None:
    """A capture of all traffic of clients does not hold what brokers say to each other."""
    talk = Conversation()
    leader(talk).write(100, complete=20_000).accepted()
    verdicts = [(it.code, it.verdict) for it in everything(talk, complete=True)]
    assert verdicts == [(it.code, it.verdict) for it in everything(talk)]
    assert "unknown" in {verdict for _, verdict in verdicts}


@pytest.mark.parametrize("is_open", [True, False])
def test_a_tls_connection_that_is_not_decrypted_hides_traffic_of_its_client(is_open: bool) -> None:
    tls = ConnectionFacts(Flow(7, ("10.0.0.1:5", "10.0.0.9:9093"), 1, 0, service="tls"))
    hides = Complete({7: tls} if is_open else {}, set() if is_open else {"10.0.0.1"})
    assert not hides.holds("10.0.0.1")
    assert hides.holds("10.0.0.2")


@pytest.mark.parametrize("talk", [it for it in talks() if it.name in HIDDEN], ids=lambda it: it.name)
def test_fewer_packets_accuse_nobody_else(talk: object) -> None:
    whole = talk.made()  # type: ignore[attr-defined]
    proved = accused(whole, complete=True)
    assert proved > accused(whole, complete=False)
    for index in range(len(whole.exchanges)):
        assert accused(whole.without_exchange(index), complete=True) <= proved


@pytest.mark.sweep(quick=40)
@pytest.mark.parametrize("talk", [it for it in talks() if it.name not in HIDDEN], ids=lambda it: it.name)
def test_no_other_conversation_is_judged_otherwise(talk: object) -> None:
    whole = talk.made()  # type: ignore[attr-defined]
    assert accused(whole, complete=True) == accused(whole, complete=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    every(it for it in SHARED_CAPTURES if it.parent.name in ("clients", "kafka-4") and it.stat().st_size < 12 << 20),
    ids=lambda path: path and str(path.relative_to(SHARED)),
)
def test_real_clients_are_accused_of_nothing_more(path: object) -> None:
    """Only the clients of these captures that were made to break rules are."""
    if path.name.startswith(("adv-", "walk-")):  # type: ignore[attr-defined]
        pytest.skip("it has clients that break rules")
    said = []
    for complete in (False, True):
        run = Run(Registry(), complete=complete)
        for page in pages([path]):  # type: ignore[list-item]
            run.page(page)
        run.close()
        said.append({(it.code, it.packet) for it in run.findings if it.verdict == "violation"})
    assert said[0] == said[1]

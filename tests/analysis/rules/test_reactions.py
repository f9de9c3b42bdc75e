"""A client is accused of its reaction to an answer only if it had received the answer."""

from __future__ import annotations

from typing import Any

import pytest

from kshark.analysis.facts.bases import ANSWER_RECEIVED
from kshark.analysis.rules import RULES
from kshark.analysis.runners import exchanges, runner, verdict
from kshark.analysis.runners.verdict import Verdict
from tests.analysis.coordinators import ACCEPTED, Sender
from tests.analysis.rules.promises import PROMISES
from tests.analysis.talks import opened
from tests.conversation import (
    INVALID_SHARE_SESSION_EPOCH,
    Conversation,
    Thinned,
    findings,
    unheard,
    unknown,
    violation,
)

#: The rules about reactions. All other rules accuse a client of what it did without an answer: it counted a request
#: when it sent it, used a session that it had closed, sent two requests at once.
REACTIONS = {
    "CONSUMER_EPOCH_FENCED",
    "CONSUMER_EPOCH_STALE",
    "GENERATION_STALE",
    "ACK_NOT_ACQUIRED",
    "ADVANCED_AFTER_ERROR",
    "DOUBLE_ACK",
    "EPOCH_NOT_ADOPTED",
    "FETCH_BY_DEPARTED_MEMBER",
    "GAP_ON_REAL_RECORD",
    "LEADER_HINT_IGNORED",
    "MEMBER_EPOCH_BEHIND",
    "NON_GAP_ON_GAP",
    "NO_RECOVERY",
    "NO_REJOIN_AFTER_FENCE",
    "START_OFFSET_REGRESSION",
    "WRITE_BEFORE_READ",
    "WRITE_UNINITIALIZED",
}


UNKNOWN_MEMBER_ID = 25
#: Rules that look at a moment when the answer had come, in times or in what another request shows.
BY_OTHER_SIGNS = {"FETCH_UNASSIGNED_PARTITION", "HEARTBEAT_LATE", "REOPEN_HOT_LOOP"}


def test_the_rows_of_these_rules_say_so() -> None:
    assert {rule.code for rule in RULES if ANSWER_RECEIVED in rule.rests_on} == REACTIONS | BY_OTHER_SIGNS


class Reactions:
    """The codes of arguments that name an answer which their client must have received."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.codes: set[str] = set()

        def judged(rule: Any, argument: Any, *rest: Any) -> Verdict:
            if argument.needs.knows:
                self.codes.add(rule.code)
            return verdict.judged(rule, argument, *rest)

        for module in (runner, exchanges):
            monkeypatch.setattr(module, "judged", judged)

    def violations(self, talk: Conversation | Thinned) -> set[tuple[str, int]]:
        """The violations of these rules."""
        self.codes.clear()
        found = [finding for finding in findings(talk) if finding.verdict == "violation"]
        return {(finding.code, finding.packet) for finding in found if finding.code in self.codes}


def a_removed_member_fetches() -> Conversation:
    talk = Conversation()
    a = opened(talk)
    a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    a.share_fetch(1).answered()
    talk.pause(5)
    a.share_fetch(2).answered()
    return talk


def a_leader_goes_back_behind_what_it_read() -> Conversation:
    talk = Conversation()
    sender = Sender(talk.connection())
    sender.read().given(100)
    sender.write(90, (100, 109, ACCEPTED, 1)).accepted()
    return talk


#: Conversations that break a rule about a reaction, besides the promises.
MORE = (a_removed_member_fetches, a_leader_goes_back_behind_what_it_read)


def test_nobody_is_accused_of_a_reaction_to_an_answer_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    reactions, seen = Reactions(monkeypatch), set()
    for talk in (*(promise()[0] for promise in PROMISES), *(made() for made in MORE)):
        broken = {code for code, _ in reactions.violations(talk)}
        if broken:
            assert not broken & {code for code, _ in reactions.violations(unheard(talk))}, broken
        seen |= broken
    assert seen == REACTIONS


def test_a_client_that_pipelines_could_not_know() -> None:
    """The next request after it has the answer is the one that ignores it."""
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0).answered()
    first = a.share_fetch(3)
    with a.connection.pipelined():
        first.answered(INVALID_SHARE_SESSION_EPOCH)
        second = a.share_fetch(4).answered(INVALID_SHARE_SESSION_EPOCH)
    third = a.share_fetch(5).answered(INVALID_SHARE_SESSION_EPOCH)
    assert [each for each in findings(talk) if each.code == "NO_RECOVERY"] == [
        violation("NO_RECOVERY", third.sent, blame="client")
    ]
    assert second.packet < third.sent


def test_a_retransmitted_request_may_have_been_sent_before_the_answer() -> None:
    """Only its retransmission is in the capture, after an acknowledgement that shows its first transmission."""
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0).answered()
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    a.connection.tcp.acknowledge(ahead=60)
    again = a.share_fetch(4).answered(INVALID_SHARE_SESSION_EPOCH)
    assert [each for each in findings(talk) if each.code == "NO_RECOVERY"] == [
        unknown("NO_RECOVERY", again.sent, because="in_flight")
    ]

"""Rules of one exchange: a condition over the request, and one over its answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec import UNSET

from kshark.analysis.rules.rule import NOTES, Rule
from kshark.analysis.runners.exchanges import ExchangeRules
from kshark.conditions import F
from tests.analysis.plain import connection
from tests.analysis.talks import INVALID_REQUEST
from tests.conversation import Conversation, findings

HEARTBEAT = 76


def rule(code: str, told: str, **more: Any) -> Rule:
    return Rule(number=None, code=code, text="It is so.", source="", apis=(HEARTBEAT,), sentence=told, **more)


WRONG = rule("WRONG", "it is too low", when=F("member_epoch") < -1)
REFUSED = rule("REFUSED", "it is refused", when=F("member_epoch") < 0, answer=F("error_code") == 42)
SEEN = rule("SEEN", "it is seen", when=F("member_epoch") == -5, verdicts=NOTES, blame=())


def message(packet: int, version: int | None, doubt: bool = False, **body: Any) -> Any:
    """A heartbeat or its answer."""
    return SimpleNamespace(
        detail=UNSET,
        packet=packet,
        time_ns=packet,
        api_key=HEARTBEAT,
        api="ShareGroupHeartbeat",
        version=version,
        correlation_id=7,
        client_id="c",
        body=SimpleNamespace(group_id="g", member_id="m", **body),
        weird=["RESYNC"] * doubt,
        knows=UNSET,
    )


def said(
    epoch: int, error: int | None, version: int | None = 1, *, doubt: bool = False
) -> list[tuple[str, str | None, str]]:
    """Code, verdict and sentence."""
    rules = ExchangeRules((WRONG, REFUSED, SEEN))
    request = message(10, version, doubt, member_epoch=epoch)
    response = None if error is None else message(11, version, error_code=error)
    verdicts = rules.look(request, response, connection())
    return [(each.rule.code, each.judgement.verdict, each.argument.sentence) for each in verdicts if each.is_reported]


def test_rules_name_their_apis() -> None:
    assert ExchangeRules((WRONG, REFUSED)).apis == {HEARTBEAT}


def test_what_the_request_says() -> None:
    text = "ShareGroupHeartbeat #7: it is too low (packets 10, 11)"
    assert said(0, 0) == []
    assert said(-2, 0) == [("WRONG", "violation", text)]
    assert said(-2, None) == [("WRONG", "violation", "ShareGroupHeartbeat #7: it is too low (packet 10)")]
    assert said(-2, 0, version=None) == [("WRONG", "violation", text)]


def test_what_the_answer_has_to_say() -> None:
    text = "ShareGroupHeartbeat #7 was refused with INVALID_REQUEST: it is refused (packets 10, 11)"
    assert said(-1, 42) == [("REFUSED", "violation", text)]
    assert said(-1, 41) == []
    assert said(-1, None) == []
    assert [code for code, _, _ in said(-2, 42)] == ["WRONG", "REFUSED"]


def test_what_can_only_be_a_note_is_not_worth_a_doubt() -> None:
    assert [(code, verdict) for code, verdict, _ in said(-5, 0)] == [("WRONG", "violation"), ("SEEN", "note")]
    assert [(code, verdict) for code, verdict, _ in said(-5, 0, doubt=True)] == [("WRONG", "unknown")]


def test_nothing_is_said_of_a_connection_that_is_not_known() -> None:
    rules, request = ExchangeRules((WRONG,)), message(10, 1, member_epoch=-2)
    assert rules.look(request, None, None) == ()


def test_versions_are_told_apart() -> None:
    """Conditions are compiled for each: version 0 has other fields."""
    talk = Conversation(release="4.0")
    a = talk.member("a")
    a.share_fetch(0, [0], acks=[(0, 0, 1)], version=0).answered(INVALID_REQUEST)
    a.share_fetch(0, [0], acks=[(0, 0, 1)], version=1).answered(INVALID_REQUEST)
    assert [it.code for it in findings(talk)] == ["ACK_IN_INITIAL_FETCH"] * 2

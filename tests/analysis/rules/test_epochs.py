"""Why a broker says INVALID_SHARE_SESSION_EPOCH: counting, and who miscounted."""

from __future__ import annotations

import pytest

from tests.conversation import (
    INVALID_SHARE_SESSION_EPOCH,
    Conversation,
    Member,
    findings,
    note,
    unknown,
    violation,
)

LAST = 2_147_483_647
INVALID_REQUEST = 42


def opened(talk: Conversation, upto: int = 0, **how: object) -> Member:
    """A member whose session has had the epochs up to that one accepted."""
    member = talk.member("a", **how)  # type: ignore[arg-type]
    for epoch in range(upto + 1):
        member.share_fetch(epoch).answered()
    return member


def test_a_healthy_session_has_no_findings() -> None:
    talk = Conversation()
    a = opened(talk, 3)
    a.share_acknowledge(4, [(0, 4, 1)]).answered()
    a.share_fetch(5).answered()
    a.share_acknowledge(-1).answered()
    a.connection.close()
    assert findings(talk) == []


def test_the_argument_names_the_witnesses() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    late = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    (found,) = findings(talk)
    last = talk.exchanges[-2]
    assert [(w.request_packet, w.response_packet) for w in found.witness] == [
        (last.packets[-1], last.answer_packets[-1]),
        (late.packets[-1], late.answer_packets[-1]),
    ]
    (first, second), (third, fourth) = ((w.request_packet, w.response_packet) for w in found.witness)
    assert found.argument == (
        f"ShareFetch #{last.correlation_id} (epoch 1) was accepted (packets {first}, {second}), so 2 "
        f"was due; "
        f"ShareFetch #{late.correlation_id} (epoch 3) was refused with INVALID_SHARE_SESSION_EPOCH "
        f"(packets {third}, {fourth})"
    )
    assert (found.client_id, found.software, found.group_id, found.member_id) == (
        "c1",
        "apache-kafka-java 4.3.1",
        "g",
        a.member_id,
    )


def test_after_an_unanswered_request_both_epochs_are_due() -> None:
    for due in (2, 3):
        talk = Conversation()
        a = opened(talk, 1)
        a.share_fetch(2)
        a.on(talk.connection()).share_fetch(due).answered()
        assert [finding.verdict for finding in findings(talk)] == ["note"]


def test_after_the_highest_epoch_comes_one() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(LAST).answered()
    a.share_fetch(1).answered()
    assert findings(talk) == []


def test_after_the_highest_epoch_it_is_repeated() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(LAST).answered()
    again = a.share_fetch(LAST).answered(INVALID_SHARE_SESSION_EPOCH)
    assert findings(talk) == [violation("EPOCH_REPLAY", again, cause="replay")]


def test_an_error_behind_the_session_advances_it() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    failed = a.share_fetch(2).answered(-1)
    a.share_fetch(3).answered()
    assert findings(talk) == [note("TOPIC_ID_UNKNOWN", failed, cause="unknown_topic")]


def test_what_was_missed_is_known_again_from_the_next_accepted_epoch() -> None:
    talk = Conversation()
    a = opened(talk, 6)
    late = a.share_fetch(8).answered(INVALID_SHARE_SESSION_EPOCH)
    assert findings(talk.without_exchange(4)) == [violation("EPOCH_SKIP_AHEAD", late, cause="skip_ahead")]


def test_a_session_older_than_the_capture_is_known_from_its_first_accepted_epoch() -> None:
    talk = Conversation()
    a = talk.member("a", connection=talk.connection(from_syn=False, introduced=False), joined=False)
    for _ in range(3):  # a boundary found again is certain after three frames
        a.heartbeat(1).answered()
    first = a.share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(9).answered()
    later = a.share_fetch(11).answered(INVALID_SHARE_SESSION_EPOCH)
    assert [finding for finding in findings(talk) if finding.cause] == [
        unknown("EPOCH_REFUSED", first, because="beginning_not_seen"),
        violation("EPOCH_SKIP_AHEAD", later, cause="skip_ahead"),
    ]


@pytest.mark.parametrize(("end", "blame"), [("FIN", "client"), ("RST", "unknown"), ("RST of the broker", "network")])
def test_a_request_is_repeated_after_its_connection_ended(end: str, blame: str) -> None:
    """A client that sends FIN did not wait for the answer. A RST with its address may come from a firewall."""
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(2)
    tcp = a.connection.tcp
    {"FIN": tcp.close, "RST": tcp.reset, "RST of the broker": lambda: tcp.reset(1)}[end]()
    again = a.on(talk.connection()).share_fetch(2).answered(INVALID_SHARE_SESSION_EPOCH)
    assert [it for it in findings(talk) if it.cause == "replay"] == [
        violation("EPOCH_REPLAY", again, blame=blame, cause="replay")
    ]


def test_an_answer_that_the_capture_lost_is_no_loss_of_the_network() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(2)
    again = a.on(talk.connection()).share_fetch(2).answered(INVALID_SHARE_SESSION_EPOCH)
    assert findings(talk) == [violation("EPOCH_REPLAY", again, blame="client", cause="replay")]

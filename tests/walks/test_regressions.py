"""Conversations that were judged wrongly, as small as they can be: found by arbitrary ones (test_generated) or in a
recorded walk."""

from __future__ import annotations

import pytest

from kshark.model import Finding
from tests.analysis.talks import UNKNOWN_SERVER_ERROR, caused
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_NOT_FOUND, Conversation, Thinned, findings
from tests.packets import batch
from tests.shared import CAPTURES
from tests.thinning import Whole, added, findings_in
from tests.walks.damage import arranged, joined, merged_with_a_copy
from tests.walks.generated import Act, Talk

OTHER_BROKER = "10.0.0.8:9092"


def accused(talk: Conversation | Thinned) -> list[str]:
    """The codes of all violations."""
    return violations(findings(talk))


def violations(found: list[Finding]) -> list[str]:
    return [finding.code for finding in found if finding.verdict == "violation"]


def test_a_client_that_closes_is_no_broker_that_restarts() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    a.connection.tcp.reset(1)
    b.connection.tcp.reset(1)
    b = b.on(talk.connection())
    b.share_fetch(0).answered()
    b.connection.close()
    b.on(talk.connection()).share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert [it.cause for it in caused(talk)] == ["connection_closed"]


def test_a_member_that_joins_again_was_there_before() -> None:
    talk = Conversation()
    a = talk.member("a", connection=talk.connection(OTHER_BROKER))
    a.share_fetch(0).answered()
    a.connection.tcp.reset(1)
    last = len(talk.packets())
    again = a.on(talk.connection())
    again.join()
    again.share_acknowledge(1).answered(SHARE_SESSION_NOT_FOUND)
    assert accused(talk) == []
    assert accused(talk.without_packets(range(1, last + 1))) == []


def test_a_request_lost_between_two_refusals_may_have_been_an_opening() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0).answered()
    a.share_fetch(-1).answered()
    a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    opening = a.on(talk.connection()).share_fetch(0, [0, 0]).answered(UNKNOWN_SERVER_ERROR)
    a.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert added(findings(talk), findings(talk.without_packets(opening.packets))) == []


def test_of_two_connections_that_end_together_the_one_not_seen_took_the_session() -> None:
    talk = Conversation(release="4.1")
    a = talk.member("a")
    a.share_fetch(0).answered()
    b = a.on(talk.connection())
    b.share_fetch(0).answered()
    a.connection.tcp.reset(1)
    unseen = b.connection.tcp.reset(1)
    a.on(talk.connection()).share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert accused(talk) == []
    assert accused(talk.without_packets([unseen])) == []


def test_a_fetch_that_was_overtaken_and_got_its_records_all_the_same() -> None:
    acts = [Act("fetch"), Act("fetch"), Act("wait"), Act("acknowledge", line=1), Act("answer"), Act("fetch")]
    talk = Talk(acts, lenient=True)
    overtaken = talk.steps[2].asked
    for exact in (False, True):
        found = findings_in([batch(talk.wire.wire.packets)], exact=exact)
        accused = [(it.code, it.packet) for it in found if it.verdict == "violation"]
        assert ("FETCH_OVERTAKEN", overtaken.packet) in accused, exact


def test_an_answer_that_the_capture_does_not_hold_is_not_lost_by_the_network() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0).answered()
    a.share_fetch(1).answered()
    b = a.on(talk.connection())
    b.share_fetch(2).answered()
    a.share_fetch(2).answered(INVALID_SHARE_SESSION_EPOCH)
    ports = (9092).to_bytes(2) + int(b.connection.tcp.source.rpartition(":")[2]).to_bytes(
        2
    )  # of what the broker sends there
    unseen = [number for number, packet in talk.packets() if packet.data[34:38] == ports]
    assert added(findings(talk), findings(talk.without_packets(unseen))) == []


def test_neighbours_whose_times_say_otherwise_were_not_open_at_once() -> None:
    talk = Conversation()
    a = talk.member("a")
    b = a.on(talk.connection())
    answer = a.share_fetch(0).answered().packet
    b.share_fetch(1).answered()
    a.share_fetch(2).answered()
    whole = batch(talk.wire.packets)
    rows = list(range(len(talk.wire.packets)))
    rows[answer - 1], rows[answer] = rows[answer], rows[answer - 1]
    assert accused(talk) == []
    assert violations(findings_in([arranged(whole, rows)])) == []


def test_a_connection_seen_from_two_places_is_one() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    a.share_fetch(0).answered()
    a.share_fetch(-1).answered()
    assert accused(talk) == []
    for skew_ms in (0.05, 3, 40, 20_000):
        assert violations(findings_in([merged_with_a_copy(batch(talk.wire.packets), int(skew_ms * 1e6))])) == [], (
            skew_ms
        )


@pytest.mark.parametrize("skew_s", [0.2, 15, 45])
def test_correct_clients_seen_from_two_places_are_correct(skew_s: float) -> None:
    whole = joined(Whole.load(CAPTURES / "share-restart.pcap").batches)
    assert violations(findings_in([merged_with_a_copy(whole, int(skew_s * 1e9))])) == []

"""What a capture can prove: the same conversations, seen by sniffers that missed something."""

from __future__ import annotations

import pytest

from kshark.analysis import REASONS
from kshark.output.catalogue import CODES, number_of
from tests.analysis.talks import caused, codes, opened
from tests.conversation import (
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    Asked,
    Conversation,
    Thinned,
    findings,
    unknown,
    violation,
)


def skip(talk: Conversation) -> Asked:
    """Epoch 3 where 2 was due, and some more of the session behind it."""
    a = opened(talk, 1)
    late = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    for epoch in range(6):
        a.share_fetch(epoch).answered()
    return late


def heard_of(talk: Thinned, asked: Asked) -> list[tuple[str, str | None]]:
    return [(found.verdict, found.unknown_because) for found in caused(talk) if found.packet == asked.packet]


def test_nothing_is_missing() -> None:
    talk = Conversation()
    late = skip(talk)
    assert caused(talk) == [violation("EPOCH_SKIP_AHEAD", late)]


def test_the_request_that_was_due_is_missing() -> None:
    talk = Conversation()
    late = skip(talk)
    before = talk.exchanges[talk.exchanges.index(late) - 1]
    for missing in (before.packets, before.answer_packets, before.all_packets):
        told = heard_of(talk.without_packets(missing), late)
        assert [verdict for verdict, _ in told] in ([], ["unknown"])


def test_what_was_long_ago_does_not_matter() -> None:
    talk = Conversation()
    a = opened(talk, 8)
    late = a.share_fetch(11).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(0).answered()
    long_ago = talk.exchanges[4]
    assert heard_of(talk.without_packets(long_ago.all_packets), late) == [("violation", None)]


def test_the_beginning_of_the_capture_is_missing() -> None:
    talk = Conversation()
    a = opened(talk, 8)
    stale = a.share_fetch(2).answered(INVALID_SHARE_SESSION_EPOCH)
    for _ in range(3):
        a.heartbeat(1).answered()
    assert caused(talk) == [violation("EPOCH_STALE", stale)]
    known = talk.exchanges[6].packets[0]
    assert heard_of(talk.without_packets(range(1, known)), stale) == [("violation", None)]
    assert heard_of(talk.without_packets(range(1, stale.packets[0])), stale) == [("unknown", "beginning_not_seen")]


def test_one_direction_is_missing() -> None:
    talk = Conversation()
    late = skip(talk)
    source = late.connection.tcp.source.rpartition(":")[2]
    answers = [n for n, p in talk.packets() if int.from_bytes(p.data[34:36]) != int(source)]
    requests = [n for n, p in talk.packets() if int.from_bytes(p.data[34:36]) == int(source)]
    assert codes(talk.without_packets(answers)) == []
    assert [verdict for _, verdict in codes(talk.without_packets(requests)) if verdict == "violation"] == []


def test_a_fin_is_missing() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    b = a.on(talk.connection())
    here = len(talk.wire.packets)
    a.connection.close()
    lost = b.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    closing = range(here + 1, here + 4)
    assert heard_of(talk.without_packets(closing), lost) == [("unknown", "hidden_traffic")]


def test_the_release_is_missing() -> None:
    talk = Conversation(release="4.1")
    a = opened(talk, 1)
    b = a.on(talk.connection())
    a.connection.close()
    lost = b.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    introductions = [n for asked in talk.exchanges if asked.api == "ApiVersions" for n in asked.answer_packets]
    assert [verdict for verdict, _ in heard_of(talk.without_packets(introductions), lost)] in ([], ["unknown"])


def test_an_answer_whose_request_is_missing_shows_that_something_was_missed() -> None:
    talk = Conversation()
    a = talk.member("a")
    b = a.on(talk.connection())
    unseen = b.share_fetch(0).answered()
    b.connection.reset()
    wrong = a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert [finding for finding in caused(talk) if finding.verdict == "violation"] == []
    assert heard_of(talk.without_packets(unseen.packets), wrong) == [("unknown", "gap")]


def test_two_addresses_may_be_one_broker() -> None:
    talk = Conversation()
    a = talk.member("a")
    other = a.on(talk.connection(broker="10.0.0.8:9092"))
    other.share_fetch(0).answered()
    wrong = a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [unknown("SESSION_UNKNOWN", wrong, because="hidden_traffic")]


def test_every_reason_is_explained() -> None:
    assert all(reason == reason.lower() and text for reason, text in REASONS.items())


@pytest.mark.parametrize("release", ["4.0", "4.1", "4.2", None])
def test_blame_is_one_that_the_catalogue_allows(release: str | None) -> None:
    talk = Conversation(release=release)
    late = skip(talk)
    late.connection.close()
    for found in findings(talk):
        entry = CODES[found.code]
        assert found.rule == number_of(entry)
        assert found.severity == {"violation": "error", "unknown": "warn", "note": "note"}[found.verdict]
        assert found.blame in entry.blame if found.verdict == "violation" else found.blame == "unknown"
        assert (found.unknown_because in REASONS) == (found.verdict == "unknown")
        assert found.witness
        assert found.argument

"""Bytes that nobody sent: whatever a capture holds, the analysis says something about it or nothing, and never
stumbles."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kshark.analysis import REASONS, Analyzer, PackedSessions
from kshark.model import Closed, Exchange, HalfClosed, Message, Opened
from kshark.output.catalogue import CODES
from tests.analysis.coordinators import leader
from tests.analysis.talks import broker_refuses, opened
from tests.conversation import (
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    TOPIC,
    Conversation,
    Thinned,
    events,
    findings,
)
from tests.examples import as_many
from tests.fuzz.unreadable import Spoiled, spoiled

#: Ethernet, IPv4 and TCP headers of tests.conversation, with TCP timestamps.
HEADERS = 66


@cache
def talk_of_all_kinds() -> Conversation:
    talk = Conversation(release="4.1")
    a = opened(talk, 2)
    acquired = [
        {
            "partition_index": 0,
            "acquired_records": [{"first_offset": 0, "last_offset": 9, "delivery_count": 1}],
            "records": b"",
        }
    ]
    a.share_fetch(3, [0, 1]).answered(responses=[{"topic_id": TOPIC, "partitions": acquired}])
    a.share_acknowledge(4, [(0, 4, 1)]).answered()
    a.share_fetch(5, [0], acks=[(5, 9, 2)], forget=[1]).answered()
    a.share_fetch(9).answered(INVALID_SHARE_SESSION_EPOCH)
    b = a.on(talk.connection())
    b.share_fetch(0).answered()
    a.connection.close()
    b.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    b.heartbeat(-1).answered(member_id=b.member_id, member_epoch=-1)
    b.connection.reset()
    broker_refuses(talk)
    leads = leader(talk)
    leads.write(100, (100, 109, 2, 1), (110, 119, 0, 1)).accepted()
    leads.write(100, (110, 119, 2, 2)).refused(74)
    leads.read(1).given(100, (100, 109, 2, 1))
    leads.delete().accepted()
    return talk


@settings(max_examples=as_many(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_flipped_bytes(data: st.DataObject) -> None:
    rows = talk_of_all_kinds().packets()
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.sampled_from([i for i, (_, packet) in enumerate(rows) if len(packet.data) > HEADERS]))
        number, packet = rows[at]
        place = data.draw(st.integers(HEADERS, len(packet.data) - 1))
        damaged = packet.data[:place] + bytes([data.draw(st.integers(0, 255))]) + packet.data[place + 1 :]
        rows[at] = number, replace(packet, data=damaged)
    for found in findings(Thinned(rows)):
        assert found.code in CODES
        assert found.unknown_because is None or found.unknown_because in REASONS


@settings(max_examples=as_many(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_events_that_are_missing_or_come_twice(data: st.DataObject) -> None:
    whole = events(talk_of_all_kinds())
    kinds = (Message, Exchange, Opened, HalfClosed, Closed)
    keep = data.draw(st.lists(st.integers(0, 2), min_size=len(whole), max_size=len(whole)))
    analyzer = Analyzer(sessions=True, steps=True)
    for event, times in zip(whole, keep, strict=True):
        for _ in range(times if isinstance(event, kinds) else 1):
            list(analyzer.feed(event))
    list(analyzer.close())
    assert analyzer.summary()["sessions"] == len([*PackedSessions(analyzer.listed())])


@pytest.mark.parametrize(
    ("capture", "place"),
    [
        ("share-errors.pcap", 294),
        ("share-errors.pcap", 310),
        ("adv-acks.pcap", 336),
        ("seed-messy.pcap", 325),
        ("share-leaders.pcap", 547),
        ("share-locks.pcap", 277),
        ("adv-acks.pcap", 255),
        ("share-errors.pcap", 148),
    ],
)
def test_a_body_that_cannot_be_read_accuses_nobody_of_what_may_be_in_it(capture: str, place: int) -> None:
    """A fetch or its answer, behind which the member acknowledges what it was handed there; what was stored of an
    acknowledgement."""
    assert [found.code for found in spoiled(Spoiled(capture, [place], 0xFF))] == ["UNDECODABLE_BODY"]

"""`kshark deliveries --offset N` of a group with a dead-letter queue, beside what a consumer of that queue was
handed."""

from __future__ import annotations

import gzip
import json
from typing import Final

import pytest

from tests.cli.command import Run
from tests.shared import CAPTURES

CAPTURE: Final = CAPTURES / "share-dead-letters-4.4.0.pcap"
REJECTED: Final = "Offset rejected by client."
GIVEN_UP: Final = "Offset delivery count exceeded the threshold."
#: What Kafka's console consumer printed of the queue: its offset, with the record's offset, its delivery count and the
#: reason.
CONSUMED: Final = [
    (0, 0, 1, REJECTED),
    (1, 1, 1, REJECTED),
    (2, 2, 1, REJECTED),
    (3, 1, 1, REJECTED),
    (4, 2, 1, REJECTED),
    (5, 3, 2, GIVEN_UP),
    (6, 4, 2, GIVEN_UP),
    (7, 5, 2, GIVEN_UP),
]


@pytest.mark.parametrize("offset", range(12))
def test_the_queue_has_what_its_consumer_was_handed(kshark: Run, offset: int) -> None:
    said = kshark("deliveries", CAPTURE, "--offset", str(offset), "-T", "json").json
    letters = [one for one in said if one["event"] == "dead_letter"]
    assert [(one["queue_offset"], one["offset"], one["delivery_count"], one["reason"]) for one in letters] == [
        one for one in CONSUMED if one[1] == offset
    ]
    assert {
        (one["group_id"], one["topic"], one["partition"], one["queue"], one["queue_partition"]) for one in letters
    } <= {("billing", "orders", 0, "dlq.orders", 0)}


def test_a_records_life_ends_in_the_queue(kshark: Run) -> None:
    lines = kshark("deliveries", CAPTURE, "--topic", "orders", "--offset", "1").lines
    assert lines[0].startswith("offset 1 of orders[0] produced by shop at 23:03:18.698 in the batch of offsets 0-11")
    assert [line.split()[5] for line in lines if "billing · orders[0]" in line] == ["acquired", "rejected", "archived"]
    assert lines[-2:] == [
        f"offset 1 of orders[0] given up by group billing, written to dlq.orders[0] at offset {at} at {when} (packet "
        f"{packet}): {REJECTED}"
        for at, when, packet in ((1, "23:03:28.449", 307), (3, "23:03:28.552", 330))
    ]
    assert kshark("deliveries", CAPTURE, "--group", "other", "--offset", "1", "-T", "json").json == [
        one for one in kshark("deliveries", CAPTURE, "--offset", "1", "-T", "json").json if one["event"] == "produced"
    ]


def test_records_are_in_what_their_leader_stores(kshark: Run) -> None:
    """The brokers' own log: after each write and its answer the table has what was written last of each offset."""
    with gzip.open(CAPTURE.with_suffix(".requests.jsonl.gz"), "rt") as lines:
        logged = [
            one
            for one in map(json.loads, lines)
            if one["requestHeader"]["requestApiKeyName"] == "WRITE_SHARE_GROUP_STATE"
        ]
    names = {0: "available", 2: "acknowledged", 3: "archiving", 4: "archived"}
    written = [
        (batch["firstOffset"], batch["lastOffset"], names[batch["deliveryState"]])
        for one in logged
        for topic in one["request"]["topics"]
        for partition in topic["partitions"]
        for batch in partition["stateBatches"]
    ]
    changes = kshark("deliveries", CAPTURE, "--topic", "orders", "-T", "json").json
    archiving = {
        offset
        for one in changes
        for its in one["ranges"]
        if its["state"] == "archiving"
        for offset in range(its["first_offset"], its["last_offset"] + 1)
    }
    assert (
        archiving
        == {offset for first, last, state in written if state == "archiving" for offset in range(first, last + 1)}
        == set(range(6))
    )
    assert [one["event"] for one in changes].count("archived") == 3

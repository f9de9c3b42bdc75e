"""Counts against what applications say that they got and did, on every capture that has it."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from kshark.capture import open_captures
from kshark.metrics import APIS, Counted, ShareCounting
from kshark.metrics.counts import accepted_records
from kshark.names import TopicNames
from kshark.pipeline import Engine, Options
from kshark_dissectors.enums import AcknowledgeType
from tests.conversation import registry
from tests.shared import CAPTURES, shared

#: All captures whose applications wrote down each delivery; 62,784 of them are of share-large, which is not bundled.
NAMES: Final = [
    "java-limit",
    "share-java-explicit",
    "share-java-explicit-4.0.0",
    "share-java-explicit-4.1.2",
    "share-java-implicit-4.2.1",
    "share-java-renew",
    "share-librdkafka",
    "share-loss",
    "share-restart",
    pytest.param("share-large", marks=pytest.mark.slow),
]
#: Records that a client fetched and its application never saw: the lock ran out before its poll, or it was closed.
NEVER_POLLED: Final = {("share-java-explicit-4.0.0", "sa"): 13, ("share-java-renew", "ra"): 17}
#: Records that an application acknowledged, and its client could not say so any more: the broker was gone.
NEVER_SENT: Final = {("share-restart", "r3"): 13}
_NO_RECORD: Final = AcknowledgeType.GAP.name


@cache
def counts_of(path: Path) -> tuple[Counted, dict[str, str]]:
    """And the names of topics by id."""
    names = TopicNames(registry())
    counting = ShareCounting(names)
    for page in Engine(Options(records=False, bodies=APIS), registry()).pages(open_captures([path])):
        counting.page(page)
    return counting.close(), names.by_id


@cache
def truth_of(path: Path) -> Any:
    with gzip.open(path.with_suffix(".truth.json.gz")) as file:
        return json.load(file)


def by_client(path: Path) -> dict[str, tuple[Counter[str], int]]:
    """Records by what a member did with them, and how many it renewed; `again`: delivered more than once, `got` all
    that were delivered."""
    found = {}
    for member in counts_of(path)[0].members.values():
        did = Counter(
            {
                "got": member.acquired.total(),
                "again": sum(n for deliveries, n in member.acquired.items() if deliveries > 1),
            }
        )
        for (kind, _), count in member.acknowledged.items():
            did[AcknowledgeType(kind).name] += count
        found[member.client.value[0]] = did, accepted_records(member.acknowledged, AcknowledgeType.RENEW)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_members_got_and_acknowledged_what_their_applications_say(name: str) -> None:
    """An application gets no gap, and a record that it renewed once more."""
    path = shared("captures", "kafka-4", "share-large.pcap") if name == "share-large" else CAPTURES / f"{name}.pcap"
    said: dict[str, Counter[str]] = {}
    for step in truth_of(path)["events"]:
        if step["t"] == "delivered":
            client = said.setdefault(step["client"], Counter())
            client.update(["got", step["ack"].removesuffix("(implicit)")] + ["again"] * (step["delivery_count"] > 1))
    for client_id, (did, renewed) in by_client(path).items():
        gaps, unseen, unsent = (
            did.pop(_NO_RECORD, 0),
            NEVER_POLLED.get((name, client_id), 0),
            NEVER_SENT.get((name, client_id), 0),
        )
        of = said.pop(client_id, Counter())
        assert did.pop("got") - gaps - unseen + renewed == of.pop("got", 0)
        again = of.pop("again", 0)
        assert again <= did.pop("again") <= again + gaps + unseen
        assert (of - did).total() == unsent
        assert (did - of).total() == 0
    assert not said


def test_a_group_on_three_nodes_whose_leaders_move() -> None:
    """Whoever acknowledges implicitly accepts all it got; of librdkafka's member its count is told alone."""
    path = shared("captures", "kafka-4", "groups-share.pcap")
    said: dict[str, Counter[str]] = {}
    for steps in truth_of(path)["consumers"]:
        for step in steps:
            if "share" in step:
                *_, deliveries, kind = step["share"]
                client = said.setdefault(step["client"], Counter())
                client.update(["got", "ACCEPT" if kind == "-" else kind] + ["again"] * (deliveries > 1))
    found = {client_id: +did for client_id, (did, _) in by_client(path).items()}
    (rdkafka,) = [step["got"] for step in truth_of(path)["events"] if step["event"] == "librdkafka share consumer"]
    assert found.pop("rdksh") == {"got": rdkafka, "ACCEPT": rdkafka}
    assert found == said


@pytest.mark.parametrize(
    ("name", "rows"), [("kafka-4/groups-share", 3), ("share-java-explicit", 8), ("share-java-implicit-4.2.1", 2)]
)
def test_start_offsets_go_on_from_what_an_administrator_was_told(name: str, rows: int) -> None:
    """`kafka-share-groups --describe` tells the start offset that is stored, and how much of the log behind it is not
    done."""
    path = shared("captures", *f"{name}.pcap".split("/")) if "/" in name else CAPTURES / f"{name}.pcap"
    lines = [line["out"] for block in truth_of(path).get("admin", ()) for line in block]
    for step in truth_of(path)["events"]:
        lines += step["stdout"].splitlines() if "--describe" in step.get("args", ()) else []
    counted, names = counts_of(path)
    ours = {
        (group.group_id, names[one.topic_id], str(one.partition)): counts
        for (group, one), counts in counted.partitions.items()
    }
    compared = 0
    for fields in map(str.split, lines):
        if len(fields) < 5 or (counts := ours.get((fields[0], fields[1], fields[2]))) is None:
            continue
        start, lag = int(fields[-2]), int(fields[-1])
        assert start <= counts.start.value
        assert counts.end.value - counts.start.value <= lag
        compared += 1
    assert compared == rows

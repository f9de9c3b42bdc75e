"""What conversations come to in figures."""

from __future__ import annotations

from typing import Any

from kshark.metrics import APIS, Counted, ListedGroup, ListedMember, ListedMetrics, ShareCounting, listed
from kshark.names import TopicNames
from kshark.pipeline import Options
from tests.conversation import TOPIC, Asked, Connection, Conversation, Thinned, events, registry


def counted(talk: Conversation | Thinned) -> Counted:
    counting = ShareCounting(TopicNames(registry()))
    counting.page(events(talk, Options(records=False, bodies=APIS)))
    return counting.close()


def told(talk: Conversation | Thinned) -> ListedMetrics:
    return listed(counted(talk), {TOPIC: "t"})


def group_of(talk: Conversation | Thinned) -> ListedGroup:
    """The only group."""
    (group,) = told(talk).groups
    return group


def member_of(talk: Conversation | Thinned, name: str = "a") -> ListedMember:
    (member,) = [one for one in group_of(talk).members if (one.member_id or "").startswith(name)]
    return member


def produced(connection: Connection, base_offset: int, partition: int = 0) -> Asked:
    """A producer's records are appended from that offset on."""
    data = [{"topic_id": TOPIC, "partition_data": [{"index": partition, "records": b"x"}]}]
    asked = connection.ask(0, "Produce", 13, {"acks": -1, "timeout_ms": 30_000, "topic_data": data})
    results: list[dict[str, Any]] = [{"index": partition, "base_offset": base_offset}]
    return asked.answered(None, responses=[{"topic_id": TOPIC, "partition_responses": results}])

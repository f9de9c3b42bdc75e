"""What administrators do while clients are at work, with Kafka's own tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Final

from tests.trouble.clients import GROUPS, TOPICS, Clients, Tool
from tests.trouble.security import CLIENT

_TOPICS: Final = Tool("org.apache.kafka.tools.TopicCommand")
_SHARE_GROUPS: Final = Tool("org.apache.kafka.tools.consumer.group.ShareGroupCommand")
_RECORDS: Final = Tool("org.apache.kafka.tools.DeleteRecordsCommand")
_PLACES: Final = Tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand")
_LEADERS: Final = Tool("org.apache.kafka.tools.LeaderElectionCommand", "--admin.config")
_ACCESS: Final = Tool("org.apache.kafka.tools.AclCommand")

#: How a topic keeps its records: all of them; for a moment; the last one of each key.
_KEPT: Final[tuple[dict[str, object], ...]] = (
    {},
    {"segment.ms": 1000, "retention.ms": 5000},
    {"segment.ms": 1000, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01},
)
#: What a share group may be told, and with which values.
_OF_GROUPS: Final[dict[str, tuple[object, ...]]] = {
    "share.record.lock.duration.ms": (1500, 5000, 12_000),
    "share.heartbeat.interval.ms": (700, 1500, 2900),
    "share.session.timeout.ms": (3000, 6000, 12_000),
    "share.isolation.level": ("read_committed", "read_uncommitted"),
    "share.delivery.count.limit": (2, 5),
    "share.partition.max.record.locks": (100, 2000),
    "share.renew.acknowledge.enable": ("true", "false"),
    "errors.deadletterqueue.topic.name": ("dlq.a", "no-prefix"),
    "errors.deadletterqueue.copy.record.enable": ("true", "false"),
}
_QUOTAS: Final[dict[str, tuple[object, ...]]] = {
    "consumer_byte_rate": (300, 3000, 1 << 30),
    "producer_byte_rate": (1000, 1 << 30),
    "request_percentage": (0.5, 100),
}


class Administrators:
    """Every method is one thing that they may do; `brokers`: how many there are."""

    def __init__(self, clients: Clients, brokers: int, folder: Path, random: Random) -> None:
        self._clients, self._brokers, self._folder, self._random = clients, brokers, folder, random
        self._partitions = dict.fromkeys(TOPICS, 3)

    async def make_topic(self, topic: str) -> None:
        self._partitions[topic] = 3
        copies = self._random.randint(1, self._brokers)
        kept = [word for name, value in self._random.choice(_KEPT).items() for word in ("--config", f"{name}={value}")]
        size = ("--partitions", str(self._partitions[topic]), "--replication-factor", str(copies))
        await self._tool(_TOPICS, "--create", "--topic", topic, *size, *kept)

    async def make_topic_anew(self) -> None:
        topic = self._random.choice(TOPICS)
        await self._tool(_TOPICS, "--delete", "--topic", topic)
        await asyncio.sleep(self._random.uniform(0, 3))
        await self.make_topic(topic)

    async def add_partition(self) -> None:
        topic = self._random.choice(TOPICS)
        self._partitions[topic] += 1
        await self._tool(_TOPICS, "--alter", "--topic", topic, "--partitions", str(self._partitions[topic]))

    async def delete_records(self) -> None:
        """All that a partition has."""
        await self._tool(
            _RECORDS,
            "--offset-json-file",
            self._json({"partitions": [{**self._partition(), "offset": -1}], "version": 1}),
        )

    async def move_partition(self) -> None:
        moved = {**self._partition(), "replicas": [self._random.randint(1, self._brokers)]}
        await self._tool(
            _PLACES, "--execute", "--reassignment-json-file", self._json({"version": 1, "partitions": [moved]})
        )

    async def elect_leaders(self) -> None:
        await self._tool(_LEADERS, "--election-type", "preferred", "--all-topic-partitions")

    async def describe_group(self) -> None:
        await self._tool(_SHARE_GROUPS, "--group", self._random.choice(GROUPS), "--describe")

    async def change_group(self) -> None:
        """What a release does not know it refuses."""
        await self._configure("groups", self._random.choice(GROUPS), _OF_GROUPS)

    async def keep_dead_letters(self) -> None:
        """Of one group, where brokers know of that (since 4.4)."""
        await self._configure("groups", GROUPS[0], {"errors.deadletterqueue.topic.name": ("dlq.a",)})

    async def throttle(self) -> None:
        await self._configure("clients", None, _QUOTAS)

    async def deny(self) -> None:
        """For a while: to read or write or see a topic, or to be a member."""
        kind, name = self._random.choice(
            (("--topic", self._random.choice(TOPICS)), ("--group", self._random.choice(GROUPS)))
        )
        operation = self._random.choice(("Read", "Write", "Describe") if kind == "--topic" else ("Read", "Describe"))
        what = ("--deny-principal", f"User:{CLIENT}", "--operation", operation, kind, name, "--force")
        await self._tool(_ACCESS, "--add", *what)
        await asyncio.sleep(self._random.uniform(1, 8))
        await self._tool(_ACCESS, "--remove", *what)

    async def empty_group(self) -> None:
        """Its offsets are set back or deleted, or all of it is; each takes a group without members."""
        self._clients.end(consumers_only=True)
        await asyncio.sleep(3)
        offsets = ("--topic", self._random.choice(TOPICS))
        how = (
            (*offsets, "--reset-offsets", "--to-earliest", "--execute"),
            (*offsets, "--delete-offsets"),
            ("--delete",),
        )
        await self._tool(_SHARE_GROUPS, "--group", self._random.choice(GROUPS), *self._random.choice(how))

    async def _configure(self, kind: str, name: str | None, settings: Mapping[str, tuple[object, ...]]) -> None:
        setting = self._random.choice([*settings])
        value = self._random.choice(settings[setting])
        whose = ("--entity-default",) if name is None else ("--entity-name", name)
        tool = Tool(self._clients.release.config_command)
        await self._tool(tool, "--alter", "--entity-type", kind, *whose, "--add-config", f"{setting}={value}")

    def _partition(self) -> dict[str, object]:
        topic = self._random.choice(TOPICS)
        return {"topic": topic, "partition": self._random.randrange(self._partitions[topic])}

    def _json(self, value: object) -> str:
        file = self._folder / "asked.json"
        file.write_text(json.dumps(value))
        return str(file)

    async def _tool(self, tool: Tool, *arguments: str) -> None:
        await asyncio.to_thread(self._clients.once, tool, *arguments)


#: What they do, and how often in relation to the others.
TASKS: Final[dict[Callable[[Administrators], Awaitable[None]], int]] = {
    Administrators.describe_group: 1,
    Administrators.empty_group: 1,
    Administrators.add_partition: 1,
    Administrators.make_topic_anew: 1,
    Administrators.delete_records: 1,
    Administrators.move_partition: 2,
    Administrators.elect_leaders: 1,
    Administrators.change_group: 3,
    Administrators.throttle: 2,
}
#: What they do besides where clients are known.
WITH_SECURITY: Final[dict[Callable[[Administrators], Awaitable[None]], int]] = {Administrators.deny: 4}

"""A random walk: raw share clients that do right and make every mistake, on several connections, against one broker.

The seed decides what is done; how it turns out is the broker's and the clock's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.broker.diary import Diary
from tests.broker.live import Live, LiveConnection, Sent
from tests.broker.model import Model
from tests.broker.releases import Release
from tests.broker.server import Broker
from tests.broker.setup import prepare, produce
from tests.broker.table import ABSENT

TOPICS: Final = {"t1": 2, "t2": 2}
GROUPS: Final = ("ga", "gb")
#: In this group locks last no longer than that, where the others' last for 30 s.
SHORT_LOCKS_MS: Final = {"gb": 1_500}
HEARTBEAT_NS: Final = 8_000_000_000
REFUSED: Final = (122, 123, 133)

Partition = tuple[str, int]
#: First and last offset, and one type of acknowledgement, or one for each.
Ack = tuple[Partition, int, int, int | Sequence[int]]


@dataclass
class Held:
    """Offsets that a member acquired and has not acknowledged; half of their lock's time is a good time to do that."""

    partition: Partition
    first: int
    last: int
    since_ns: int
    lock_ns: int


@dataclass
class Actor:
    """A member, with the connection it uses, what it believes to have in its session, and what it holds."""

    group: str
    member_id: str
    connection: LiveConnection
    listed: set[Partition] = field(default_factory=set)
    held: list[Held] = field(default_factory=list)
    member_epoch: int | None = None
    beat_ns: int = 0
    openings: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return self.group, self.member_id


class Walk:
    """What the actions of a walk do it with."""

    def __init__(self, broker: Broker, seed: int, *, members: int = 5, room: int = 2000) -> None:
        self.broker, self.random = broker, Random(seed)
        self.release: Release = broker.release
        self.model = Model(broker.release, room)
        self.diary = Diary(self.model)
        self.talk = Live(broker.port, self.diary, line=broker.release.line)
        self.admin = prepare(self.talk, TOPICS, GROUPS, SHORT_LOCKS_MS)
        self.diary.known_topics.update(self.talk.topics.values())
        self.partitions = [
            (self.talk.topics[topic], index) for topic, count in TOPICS.items() for index in range(count)
        ]
        self._names = {self.talk.topics[topic]: topic for topic in TOPICS}
        self.actors = [Actor(GROUPS[n % len(GROUPS)], self.new_id(), self.talk.connection()) for n in range(members)]
        for actor in self.actors:
            self.heartbeat(actor)  # of whoever joins in view it is known what it never acquired

    @property
    def steps(self) -> int:
        return len(self.diary.steps)

    def new_id(self) -> str:
        """A member id as Java clients make them: a uuid in base64."""
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
        return (
            self.random.choice(letters[:62]) + "".join(self.random.choices(letters, k=20)) + self.random.choice("AQgw")
        )

    def due(self, actor: Actor) -> int | None:
        """The epoch due, or that is due if there still is a session; 0 without one, None where more is possible."""
        dues = self.model.dues(actor.key, time.time_ns())
        epochs = dues - {ABSENT}
        return 0 if not epochs else min(epochs) if len(epochs) == 1 else None

    def connection_of(self, actor: Actor) -> LiveConnection:
        """The actor's connection, a new one where it is gone."""
        if not actor.connection.is_open:
            actor.connection = self.talk.connection()
        return actor.connection

    def another(self, actor: Actor) -> LiveConnection:
        """A connection that is not the actor's: a new one, or now and then one that others use."""
        others = [other.connection for other in self.actors if other is not actor and other.connection.is_open]
        others = [connection for connection in others if connection is not actor.connection]
        if others and self.random.random() < 0.15:
            return self.random.choice(others)
        return self.talk.connection()

    def ask(
        self,
        actor: Actor,
        epoch: int,
        action: str,
        mistake: str | None = None,
        *,
        fetch: bool | None = None,
        on: LiveConnection | None = None,
        wait_ms: int = 0,
        listed: Iterable[Partition] = (),
        acks: Iterable[Ack] = (),
        forget: Iterable[Partition] = (),
        **fields: Any,
    ) -> Sent:
        """Sends a ShareFetch or ShareAcknowledge (None: one of them) and does not wait; `fields` stand in for those of
        the request."""
        fetches = self.random.random() < 0.6 if fetch is None else fetch
        body: dict[str, Any] = {
            "group_id": actor.group,
            "member_id": actor.member_id,
            "share_session_epoch": epoch,
            "topics": _listed(listed, acks),
        }
        if fetches:
            limits = {"max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 20, "batch_size": 20}
            body |= {**limits, "forgotten_topics_data": _by_topic(forget)}
        self.diary.intend(action, mistake)
        connection = on or self.connection_of(actor)
        key, api = (78, "ShareFetch") if fetches else (79, "ShareAcknowledge")
        actor.openings += fetches and epoch == 0
        return connection.ask(key, api, self.release.share, {**body, **fields})

    def does(self, actor: Actor, epoch: int, action: str, mistake: str | None = None, **how: Any) -> int | None:
        """The same, waiting for the answer, whose error it returns; None: the connection is gone."""
        sent = self.ask(actor, epoch, action, mistake, **how).wait()
        assert sent.lost or sent.answer is not None, f"no answer to {dict(sent.body)} at step {self.steps}"
        self.learn(actor, sent)
        return sent.error

    def learn(self, actor: Actor, sent: Sent) -> None:
        """What an answer tells the member: its session's partitions, what it holds."""
        error, epoch = sent.error, sent.body["share_session_epoch"]
        if error == 0 and epoch != 0:
            actor.openings = 0
        if error == 0 and epoch == -1:
            actor.listed, actor.held = set(), []
        if error not in (0, -1) or sent.key != 78 or epoch < 0:
            return
        rows = {
            (topic["topic_id"], row["partition_index"]) for topic in sent.body["topics"] for row in topic["partitions"]
        }
        gone = {
            (topic["topic_id"], index) for topic in sent.body["forgotten_topics_data"] for index in topic["partitions"]
        }
        actor.listed = (rows if epoch == 0 else actor.listed | rows) - gone
        answer = sent.answer or {}
        for topic in answer["responses"]:
            for row in topic["partitions"]:
                where = (topic["topic_id"], row["partition_index"])
                for range_ in row["acquired_records"]:
                    self._passes_to(actor, where, range_["first_offset"], range_["last_offset"])
                    lock_ns = answer["acquisition_lock_timeout_ms"] * 1_000_000
                    actor.held.append(
                        Held(where, range_["first_offset"], range_["last_offset"], time.time_ns(), lock_ns)
                    )

    def _passes_to(self, actor: Actor, where: Partition, first: int, last: int) -> None:
        """Whoever of the group held these offsets holds them no longer."""
        for other in self.actors:
            if other.group == actor.group:
                other.held = [
                    held for held in other.held if held.partition != where or held.last < first or held.first > last
                ]

    def open(self, actor: Actor, action: str = "open", mistake: str | None = None, **how: Any) -> int | None:
        """Asks for a session with some of the partitions; the third time with nothing accepted between is once too
        often."""
        if actor.openings >= 2 and mistake is None:
            mistake = "hot_loop"
        some = self.random.sample(self.partitions, self.random.randrange(1, 4))
        return self.does(actor, 0, action, mistake, fetch=True, listed=some, **how)

    def session(self, actor: Actor, least: int = 1) -> int:
        """An epoch due that is at least so high: opens a session and fetches where there is none; 0 when that does not
        work."""
        for _ in range(least + 3):
            due = self.due(actor)
            if due is not None and due >= least:
                return due
            if not due:
                self.open(actor, "open (for a probe)")
            else:
                self.does(actor, due, "fetch", wait_ms=self.short())
        return 0

    def insists(self, actor: Actor) -> None:
        """Goes on after a refusal instead of opening anew, now and then."""
        for _ in range(self.random.choice((0, 0, 0, 1, 2))):
            self.does(actor, self.random.randrange(1, 6), "goes on after a refusal", "no_recovery")

    def held_by(self, actor: Actor) -> list[Held]:
        """What the actor holds in partitions of its session, with enough time left."""
        now = time.time_ns()
        actor.held = [held for held in actor.held if now - held.since_ns < held.lock_ns // 2]
        return [held for held in actor.held if held.partition in actor.listed]

    def to_acknowledge(self, actor: Actor) -> list[Ack]:
        """Some of that, each with a type; it holds that no longer."""
        mine = self.held_by(actor)
        chosen = sorted(self.random.sample(mine, min(len(mine), 3)), key=lambda held: (held.partition, held.first))
        actor.held = [held for held in actor.held if held not in chosen]
        return [(held.partition, held.first, held.last, self.random.choice((1, 1, 1, 2, 3))) for held in chosen]

    def short(self) -> int:
        return self.random.choice((0, 0, 5, 20, 60))

    def heartbeat(self, actor: Actor, *, leave: bool = False) -> None:
        """Joins the group, stays in it, or leaves it."""
        epoch = -1 if leave else actor.member_epoch or 0
        body = {
            "group_id": actor.group,
            "member_id": actor.member_id,
            "member_epoch": epoch,
            "rack_id": None,
            "subscribed_topic_names": list(TOPICS) if epoch == 0 else None,
        }
        self.diary.intend("heartbeat")
        answer = self.connection_of(actor).ask(76, "ShareGroupHeartbeat", 1, body).wait().answer
        taken = answer is not None and answer["error_code"] == 0 and not leave
        actor.member_epoch = answer["member_epoch"] if taken and answer is not None else None
        actor.beat_ns = time.time_ns()

    def beat(self) -> None:
        """Members of groups say that they are there."""
        for actor in self.actors:
            if actor.member_epoch is not None and time.time_ns() - actor.beat_ns > HEARTBEAT_NS:
                self.heartbeat(actor)

    def feed(self, where: Partition | None = None) -> None:
        """New records for a partition, any of them unless told."""
        topic, index = where or self.random.choice(self.partitions)
        produce(self.admin, self._names[topic], index, 10)

    def restart(self, *, kill: bool) -> None:
        """The broker goes down and comes back; all connections end."""
        self.diary.broker_down("SIGKILL" if kill else "SIGTERM")
        self.broker.stop(kill=kill)
        for _ in range(3):
            self.talk.poll(0.05)
        for connection in list(self.talk.connections.values()):
            connection.close()
        self.broker.start()
        self.diary.broker_up()
        self.admin = self.talk.connection()
        for actor in self.actors:
            actor.held, actor.listed = [], set()


def _listed(listed: Iterable[Partition], acks: Iterable[Ack]) -> list[dict[str, Any]]:
    """The `topics` of a request; a partition stands as often as it is listed."""
    batches: dict[Partition, list[Mapping[str, Any]]] = {}
    for partition, first, last, kind in acks:
        kinds = [kind] if isinstance(kind, int) else list(kind)
        batches.setdefault(partition, []).append(
            {"first_offset": first, "last_offset": last, "acknowledge_types": kinds}
        )
    rows = [*listed, *(partition for partition in batches if partition not in set(listed))] if batches else list(listed)
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, index in rows:
        topics.setdefault(topic, []).append(
            {"partition_index": index, "acknowledgement_batches": batches.pop((topic, index), [])}
        )
    return [{"topic_id": topic, "partitions": partitions} for topic, partitions in topics.items()]


def _by_topic(partitions: Iterable[Partition]) -> list[dict[str, Any]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return [{"topic_id": topic, "partitions": indexes} for topic, indexes in topics.items()]

"""Share clients on a cluster of three brokers, whose partitions' leaders move: `python -m tests.broker.moves --moves 6
-o DIR`.

Members fetch from the leaders that they know of and acknowledge, now and then to the leader of before. What the
in-flight machine foretold, and what `kshark check` says of it, is printed; exit code 1 where the machine was surprised,
or a member accused that did as it should."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import kshark
from tests.broker.live import Live, LiveConnection, Sent
from tests.broker.recording import recorded
from tests.broker.records import foresight
from tests.broker.releases import RELEASES
from tests.broker.server import Broker, NoBroker
from tests.broker.setup import READY_SECONDS, configure, produce
from tests.conversation import TOPIC

GROUP: Final = "moves"
ACCEPT, RELEASE, REJECT = 1, 2, 3
#: All brokers keep all that there is; followers ask seldom, so that the capture is of share clients.
SETTINGS: Final = {
    "offsets.topic.replication.factor": 3,
    "share.coordinator.state.topic.replication.factor": 3,
    "replica.fetch.wait.max.ms": 5_000,
    "replica.lag.time.max.ms": 15_000,
    "controlled.shutdown.enable": "true",
    "group.share.record.lock.duration.ms": 4_000,
}
PARTITIONS: Final = (0, 1)
#: A partition that is not, or no longer, led by who was asked, or of which the broker knows nothing (yet).
ELSEWHERE: Final = frozenset({3, 5, 6, 9, 13, 15, 74, 75, 124})
#: What a member that does as it should may be told all the same: going on with a session that a leader's end took
#: along.
ALLOWED: Final = frozenset({"FETCH_UNASSIGNED_PARTITION"})


@dataclass
class Session:
    """A member's share session with one broker: its connection, the epoch due, its partitions, what it acquired and did
    not acknowledge."""

    live: Live
    member_id: str
    epoch: int = 0
    held: list[tuple[int, int, int]] = field(default_factory=list)
    listed: set[int] = field(default_factory=set)
    connection: Any = None

    def ask(self, key: int, api: str, version: int, topics: list[dict[str, Any]], **forgotten: Any) -> Sent | None:
        """One request; None where the broker is not there. An error of the session begins a new one."""
        try:
            if self.connection is None or not self.connection.is_open:
                self.connection, lost = self.live.connection(), self.epoch
                self.epoch, self.held, self.listed = 0, [], set()
                if lost:
                    return None  # what was to be said was meant for the session that is gone
            body: dict[str, Any] = {
                "group_id": GROUP,
                "member_id": self.member_id,
                "share_session_epoch": self.epoch,
                "topics": topics,
            }
            if key == 78:
                limits = {"max_wait_ms": 50, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 10, "batch_size": 10}
                body |= {**limits, "forgotten_topics_data": [], **forgotten}
            sent: Sent = self.connection.ask(key, api, version, body).wait(10)
        except OSError:
            return None
        if sent.error == 0:
            self.epoch += 1
        else:
            self.epoch, self.held, self.listed = 0, [], set()
        return sent


class Moves:
    """The cluster's leaders as members know them, and what they do."""

    def __init__(self, brokers: list[Broker], seed: int) -> None:
        self.random, self.brokers = Random(seed), {broker.node_id: broker for broker in brokers}
        self.lives = {
            node: Live(broker.port, line=broker.release.line, group=GROUP) for node, broker in self.brokers.items()
        }
        self.version = brokers[0].release.share
        self.leaders: dict[int, int] = {}
        self.sessions = {
            (name, node): Session(self.lives[node], name.ljust(21, "A") + "A") for name in "ab" for node in self.brokers
        }
        self.wrong: set[tuple[int, int]] = set()
        self.connections: dict[tuple[str, int], LiveConnection] = {}
        self.admin = self.lives[1].connection()
        self.topic_id = self._create()
        configure(self.admin, [GROUP], {})
        self.beats: dict[str, int] = {}
        self.coordinator = 1
        until = time.monotonic() + READY_SECONDS
        while "a" not in self.beats:
            assert time.monotonic() < until, "no broker coordinates the group"
            self.admin.ask(
                10, "FindCoordinator", 2, {"key": GROUP, "key_type": 0}
            ).wait()  # its log is made with the first question
            self.beat("a")
            self.admin.talk.pause(0.2)
        for _ in range(10):  # with the first assignment partitions are made ready for the group
            self.admin.talk.pause(0.3)
            for name in "ab":
                self.beat(name)
        self.learn()

    def _create(self) -> str:
        orders = [[2, 3, 1], [3, 1, 2]]
        rows = [
            {"partition_index": index, "broker_ids": order} for index, order in zip(PARTITIONS, orders, strict=True)
        ]
        asked = [{"name": "t", "num_partitions": -1, "replication_factor": -1, "assignments": rows}]
        answer = self.admin.ask(19, "CreateTopics", 7, {"topics": asked, "timeout_ms": 10_000}).wait().answer
        assert answer is not None
        assert answer["topics"][0]["error_code"] == 0, answer
        topic_id: str = answer["topics"][0]["topic_id"]
        for live in self.lives.values():
            live.topics[TOPIC] = topic_id
        return topic_id

    def learn(self) -> None:
        """Metadata says who leads."""
        body = {"topics": [{"topic_id": self.topic_id, "name": None}], "allow_auto_topic_creation": False}
        answer = self.admin.ask(3, "Metadata", 12, {**body, "include_topic_authorized_operations": False}).wait().answer
        assert answer is not None
        self.leaders = {
            row["partition_index"]: row["leader_id"] for topic in answer["topics"] for row in topic["partitions"]
        }

    def feed(self) -> None:
        self.learn()
        for index, leader in self.leaders.items():
            if leader in self.lives:
                with contextlib.suppress(AssertionError, OSError):
                    produce(self._to(f"feeds {index}", leader), "t", index, 5)

    def _to(self, name: str, node: int) -> LiveConnection:
        """A connection of that name with the broker, a new one where it is gone."""
        known = self.connections.get((name, node))
        if known is None or not known.is_open:
            known = self.connections[name, node] = self.lives[node].connection()
        return known

    def beat(self, name: str) -> None:
        """Joins, or stays."""
        epoch = self.beats.get(name, 0)
        body = {
            "group_id": GROUP,
            "member_id": self.sessions[name, 1].member_id,
            "member_epoch": epoch,
            "rack_id": None,
        }
        for node in sorted(self.lives, key=lambda node: node != self.coordinator):
            with contextlib.suppress(OSError):
                asked = self._to(name, node).ask(
                    76, "ShareGroupHeartbeat", 1, {**body, "subscribed_topic_names": ["t"] if epoch == 0 else None}
                )
                answer = asked.wait(10).answer
                if answer is not None and answer["error_code"] == 0:
                    self.beats[name], self.coordinator = answer["member_epoch"], node
                    return

    def fetches(self, name: str) -> None:
        """From every leader, and acknowledges on the way what it has of it."""
        for node in self.lives:
            session = self.sessions[name, node]
            mine = {index for index in PARTITIONS if self.leaders[index] == node}
            gone = session.listed - mine if session.epoch else set()
            if not mine and not gone:
                continue
            session.held = [one for one in session.held if one[0] in mine]
            acks = self._acks(session) if session.epoch else []
            forgotten = [{"topic_id": self.topic_id, "partitions": sorted(gone)}] if gone else []
            sent = session.ask(
                78, "ShareFetch", self.version, self._topics(mine, acks), forgotten_topics_data=forgotten
            )
            session.listed = mine if session.epoch else set()
            self._takes(session, sent)

    def acknowledges(self, name: str, *, elsewhere: bool = False) -> None:
        """To the broker that it has the records of; `elsewhere`: to another one."""
        holding = [
            session for (who, _), session in self.sessions.items() if who == name and session.held and session.epoch
        ]
        for session in holding[:1]:
            acks = self._acks(session)
            others = [
                one for (who, _), one in self.sessions.items() if who == name and one is not session and one.epoch
            ]
            to = self.random.choice(others) if elsewhere and others else session
            sent = to.ask(79, "ShareAcknowledge", min(self.version, 2), self._topics([], acks))
            if sent is not None and to is not session:
                self.wrong.add((sent.connection.port, sent.correlation_id))

    def _acks(self, session: Session) -> list[tuple[int, int, int, int]]:
        held, session.held = session.held[:2], session.held[2:]
        return [(*one, self.random.choice((ACCEPT, ACCEPT, RELEASE, REJECT))) for one in sorted(held)]

    def _topics(self, listed: Iterable[int], acks: list[tuple[int, int, int, int]]) -> list[dict[str, Any]]:
        rows = []
        for index in sorted({*listed, *(ack[0] for ack in acks)}):
            batches = [
                {"first_offset": a, "last_offset": b, "acknowledge_types": [kind]}
                for at, a, b, kind in acks
                if at == index
            ]
            rows.append({"partition_index": index, "acknowledgement_batches": batches})
        return [{"topic_id": self.topic_id, "partitions": rows}] if rows else []

    def _takes(self, session: Session, sent: Sent | None) -> None:
        if sent is None or sent.answer is None:
            self.lives[1].pause(0.1)
            self.learn()
            return
        for topic in sent.answer["responses"]:
            for row in topic["partitions"]:
                found = [
                    (row["partition_index"], one["first_offset"], one["last_offset"]) for one in row["acquired_records"]
                ]
                session.held += found
                if row["error_code"] in ELSEWHERE or row["acknowledge_error_code"] in ELSEWHERE:
                    self.learn()

    # -- leaders move

    def elects(self, partition: int) -> None:
        """The next replica is to lead."""
        order = [node for node in self.brokers if node != self.leaders[partition]]
        self.random.shuffle(order)
        partitions = [{"partition_index": partition, "replicas": [*order, self.leaders[partition]]}]
        body = {"timeout_ms": 10_000, "topics": [{"name": "t", "partitions": partitions}]}
        self.admin.ask(45, "AlterPartitionReassignments", 0, body).wait()
        rows = [{"topic": "t", "partitions": [partition]}]
        self.admin.ask(
            43, "ElectLeaders", 2, {"election_type": 0, "topic_partitions": rows, "timeout_ms": 10_000}
        ).wait()

    def restarts(self, node: int) -> None:
        """A broker goes down in good order while members go on, and comes back."""
        self.brokers[node].stop()
        for _ in range(4):
            self.round()
        self.brokers[node].start()

    def round(self) -> None:
        """A little of everything."""
        if self.random.random() < 0.5:
            self.feed()
        for name in "ab":
            self.beat(name)
            self.fetches(name)
            if self.random.random() < 0.5:
                self.acknowledges(name, elsewhere=self.random.random() < 0.15)
        self.lives[1].pause(self.random.choice((0.0, 0.05, 0.2, 0.5)))
        for live in self.lives.values():
            live.poll(0)


def take(moves: Moves, times: int, rounds: int) -> None:
    """So many moves, with so many rounds behind each."""
    for at in range(times):
        for _ in range(rounds):
            moves.round()
        if at % 3 == 2:
            moves.restarts(moves.random.choice((2, 3)))
        else:
            moves.elects(moves.random.choice(PARTITIONS))
    for _ in range(rounds):
        moves.round()
        moves.learn()


def run(release: str, seed: int, times: int, rounds: int, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    capture = folder / f"moves-{release.replace('.', '')}-{seed}.pcap"
    with tempfile.TemporaryDirectory(prefix="kshark-brokers-") as temporary, contextlib.ExitStack() as stack:
        brokers: list[Broker] = []
        for node in (1, 2, 3):
            (home := Path(temporary, str(node))).mkdir()
            brokers.append(Broker(RELEASES[release], home, SETTINGS, of=brokers[0] if brokers else None, node_id=node))
        if not stack.enter_context(recorded([broker.port for broker in brokers], capture)):
            raise NoBroker("what three brokers do is captured: that needs root, or the capability CAP_NET_RAW")
        for broker in brokers:
            stack.enter_context(broker)
        moves = Moves(brokers, seed)
        take(moves, times, rounds)
        for broker in reversed(brokers):
            broker.stop()
    return report(capture, moves.wrong)


def report(capture: Path, wrong: set[tuple[int, int]]) -> int:
    found = foresight(capture)
    accused = [
        finding
        for finding in kshark.check(capture)
        if finding.verdict == "violation"
        and finding.code not in ALLOWED
        and not any((int(finding.client.rpartition(":")[2]), one.correlation_id) in wrong for one in finding.witness)
    ]
    print(
        capture.name,
        f"{capture.stat().st_size:,} B;",
        "handed out:",
        dict(found.handed),
        "acknowledged:",
        dict(found.results),
    )
    print(*found.surprises, *(f"{one.code}: {one.argument}" for one in accused), sep="\n")
    return 1 if found.surprises or accused else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.broker.moves", description="Leaders of share partitions move."
    )
    parser.add_argument("--release", default="4.3.1", choices=RELEASES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--moves", type=int, default=6, help="how often a leader moves; each third time by a restart (6)"
    )
    parser.add_argument("--rounds", type=int, default=8, help="how much members do between (8)")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/broker"))
    given = parser.parse_args()
    try:
        return run(given.release, given.seed, given.moves, given.rounds, given.output)
    except NoBroker as error:
        print(f"no broker: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

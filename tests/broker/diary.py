"""What a walk did, step by step, with what the model knew: the truth that a capture of the walk is judged by.

A step is a dict in the shape of `NAME.walk.json.gz`: what was sent, on which port with which correlation id, `mistake`
(None: none),
`state` (the session when it was the request's turn), `effect`, `predicted` answers, `answer`, whether it raced.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.broker.causes import Causes, causes_of
from tests.broker.live import Observer
from tests.broker.model import Key, Model, Prediction
from tests.broker.releases import INVALID_REQUEST, Release
from tests.broker.state import SHARE_FETCH, Request, Turn
from tests.broker.table import ABSENT, Cell, cell_of
from tests.conversation import Asked

SHARE_GROUP_HEARTBEAT = 76
SHARE_ACKNOWLEDGE = 79
REFUSED = (122, 123)
NO_ROOM = 133
#: What a request that only renews has to leave zero.
LIMITS = ("max_wait_ms", "min_bytes", "max_bytes", "max_records")
Step = dict[str, Any]


@dataclass
class Open:
    """A request whose answer is still to come."""

    key: Key
    request: Request
    step: Step


@dataclass
class Diary(Observer):
    """Looks on at a conversation: asks the model before each answer, and writes every step down.

    `intend` says what the next request is meant to be. `surprises` are the steps that the model had not foretold.
    `clock` gives the time in ns."""

    model: Model
    clock: Callable[[], int] = time.time_ns
    known_topics: set[str] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    surprises: list[Step] = field(default_factory=list)
    causes: dict[int, Causes] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    cells: Counter[Cell] = field(default_factory=Counter)
    untouched: set[int] = field(default_factory=set)
    _open: dict[tuple[int, int], Open] = field(default_factory=dict)
    _by_n: dict[int, Step] = field(default_factory=dict)
    _intention: tuple[str, str | None] = ("", None)
    _turns: int = 0

    def intend(self, action: str, mistake: str | None = None) -> None:
        """The next request is this."""
        self._intention = (action, mistake)

    def sent(self, asked: Asked, body: Mapping[str, Any]) -> None:
        if asked.key not in (SHARE_GROUP_HEARTBEAT, SHARE_FETCH, SHARE_ACKNOWLEDGE):
            return
        now = self.clock()
        port, n = _port(asked), len(self.steps) + 1
        action, mistake = self._intention
        step = _step(n, now, port, asked, body, action, mistake)
        self.steps.append(step)
        self._by_n[n] = step
        key: Key = (body["group_id"], body["member_id"])
        request = _request(n, now, port, asked, body, self.model.release, self.known_topics)
        if asked.key != SHARE_GROUP_HEARTBEAT:
            others = self._outstanding(key)
            step["open_here"] = [other.request.correlation_id for other in others if other.request.port == port]
            elsewhere = [other for other in others if other.request.port != port]
            step["open_elsewhere"] = [[other.request.port, other.request.correlation_id] for other in elsewhere]
            for raced in [step, *(other.step for other in elsewhere)] if elsewhere else []:
                raced["racy"] = True
            self.model.sent(key, request)
        self._open[port, asked.correlation_id] = Open(key, request, step)

    def answered(self, asked: Asked, body: Mapping[str, Any]) -> None:
        known = self._open.pop((_port(asked), asked.correlation_id), None)
        if known is None:
            return
        now = self.clock()
        step, error = known.step, int(body["error_code"])
        step["answered_wall"], step["answer"] = _wall(now), error
        if asked.key == SHARE_GROUP_HEARTBEAT:
            return
        _told_by(step, body)
        prediction = self.model.answered(known.key, known.request, error, now)
        self._write(known, error, prediction)

    def ended(self, port: int, how: str) -> None:
        mine = [known for known in self._open.values() if known.request.port == port]
        for known in mine:
            del self._open[port, known.request.correlation_id]
            known.step["effect"] = "unknown"
        now = self.clock()
        by, kind = ("broker", "fin") if how == "by the broker" else ("client", how)
        outstanding = [known.request.correlation_id for known in mine]
        self._note("connection_end", now, port=port, how=kind, by=by, outstanding=outstanding)
        asked = [(known.key, known.request) for known in mine if known.request.api_key != SHARE_GROUP_HEARTBEAT]
        self.model.ended(port, asked, resets=kind == "rst", now_ns=now)

    def broker_down(self, how: str) -> None:
        """From here on nothing is left of what was."""
        self.model.restarted(self.clock())
        self._note("broker_down", self.clock(), how=how)

    def broker_up(self) -> None:
        self._note("broker_up", self.clock())

    def _note(self, event: str, now: int, **fields: Any) -> None:
        self.steps.append({"event": event, "wall": _wall(now), **fields})

    def _outstanding(self, key: Key) -> list[Open]:
        return [
            known
            for known in self._open.values()
            if known.key == key and known.request.api_key != SHARE_GROUP_HEARTBEAT
        ]

    def _write(self, known: Open, error: int, prediction: Prediction) -> None:
        step, request = known.step, known.request
        self._turns += 1
        turns = prediction.turns
        step["turn"], step["predicted"] = self._turns, sorted(prediction.answers)
        step["surprise"] = not turns
        if not turns:
            self.surprises.append(step)
        step["state"] = self._state(request, turns)
        effects = {turn.effect for turn in turns}
        step["effect"] = effects.pop() if len(effects) == 1 else "unknown"
        if step["effect"] == "untouched":
            self.untouched.add(request.n)
        step["overtaken"] = error == 123 and bool(turns) and all(turn.effect in ("advance", "open") for turn in turns)
        self._count(request, error, turns, overtaken=step["overtaken"])
        if error in REFUSED:
            self.causes[request.n] = causes_of(
                request, error, turns, prediction.overtakers, frozenset(self.untouched), raced=step["racy"]
            )

    def _count(self, request: Request, error: int, turns: tuple[Turn, ...], *, overtaken: bool) -> None:
        """What a broker did, and where that stands in the product's table; not counted where it may have been one of
        several."""
        outcomes = {turn.outcome for turn in turns}
        cells = {cell_of(request.api_key, request.epoch, turn.before.due if turn.before else ABSENT) for turn in turns}
        if len(outcomes) == 1 and not any(turn.lost for turn in turns):
            (outcome,) = outcomes
            self.outcomes[outcome.value if outcome is not None else "untouched"] += 1
            if outcome is not None and len(cells) == 1:
                self.cells.update(cells)
        self.outcomes["overtaken"] += overtaken
        self.outcomes["no room"] += error == NO_ROOM
        self.outcomes["failed half-way"] += any(turn.effect == "failed" for turn in turns) and error != NO_ROOM

    def _state(self, request: Request, turns: tuple[Turn, ...]) -> dict[str, Any]:
        """The session at its turn; nothing is said where several things are possible."""
        turn = turns[0] if len(turns) == 1 else None
        before = turn.before if turn else None
        last = turn.last if turn else None
        previous = turn.previous if turn else None
        opening = before.opening if before else None
        state = {
            "expected": before.due if before else None,
            "gone": turn.gone.partition(" ")[0] if turn and before is None else None,
            "dying": [],
            "model_unknown": turn is None or turn.lost,
            "opening": [opening.port, opening.correlation_id] if opening else None,
            "opening_conn_is_this": opening is not None and opening.port == request.port,
            "last": [last.port, last.correlation_id, last.epoch, last.api_key] if last else None,
            "last_elsewhere": last is not None and last.port != request.port,
            "last_after_prev_here": turn is not None and turn.overtook,
            "prev_here": self._earlier(previous) if previous else None,
            "own_last_epoch": dict(before.last_epochs).get(request.api_key) if before else None,
            "older": [],
        }
        if turn is not None and turn.after is not None:
            state["after"] = turn.after.due
        return state

    def _earlier(self, request: Request) -> dict[str, Any]:
        step = self._by_n[request.n]
        return {name: step[name] for name in ("port", "cid", "epoch", "api", "answer", "effect")}


def _step(n: int, now: int, port: int, asked: Asked, body: Mapping[str, Any], action: str, mistake: str | None) -> Step:
    rows = [
        [
            topic["topic_id"],
            row["partition_index"],
            [[b["first_offset"], b["last_offset"], b["acknowledge_types"]] for b in batches],
        ]
        for topic in body.get("topics", ())
        for row in topic["partitions"]
        for batches in [row["acknowledgement_batches"]]
    ]
    return {
        "n": n,
        "sent_wall": _wall(now),
        "answered_wall": None,
        "port": port,
        "cid": asked.correlation_id,
        "api": asked.key,
        "group": body["group_id"],
        "member": body["member_id"],
        "epoch": body["member_epoch" if asked.key == SHARE_GROUP_HEARTBEAT else "share_session_epoch"],
        "topics": rows,
        "forget": [
            [topic["topic_id"], index]
            for topic in body.get("forgotten_topics_data", ())
            for index in topic["partitions"]
        ],
        "wait": body.get("max_wait_ms", 0),
        "renew": bool(body.get("is_renew_ack")),
        "action": action,
        "mistake": mistake,
        "turn": None,
        "state": None,
        "effect": "hb" if asked.key == SHARE_GROUP_HEARTBEAT else None,
        "predicted": [],
        "answer": None,
        "racy": False,
        "overtaken": False,
        "surprise": False,
        "open_elsewhere": [],
        "open_here": [],
        "acquired": [],
        "partition_errors": {},
    }


def _request(
    n: int, now: int, port: int, asked: Asked, body: Mapping[str, Any], release: Release, topics: set[str]
) -> Request:
    listed = [
        (topic["topic_id"], row["partition_index"]) for topic in body.get("topics", ()) for row in topic["partitions"]
    ]
    forgotten = frozenset(topic["topic_id"] for topic in body.get("forgotten_topics_data", ()))
    epoch = body.get("share_session_epoch", 0)
    return Request(
        n,
        port,
        asked.correlation_id,
        asked.key,
        epoch,
        now,
        early_error(asked.key, body, release) if asked.key != SHARE_GROUP_HEARTBEAT else None,
        frozenset(topic for topic, _ in listed if topic not in topics and release.fails_on_unknown_topics),
        forgotten,
        asked.key == SHARE_FETCH and epoch == 0 and len(set(listed)) < len(listed),
        body.get("max_wait_ms", 0) * 1_000_000,
        bool(body.get("is_renew_ack")),
    )


def early_error(key: int, body: Mapping[str, Any], release: Release) -> int | None:
    """The error that comes before any session is looked at. Kafka: KafkaApis."""
    member = body["member_id"]
    for wrong, error in (
        (member is None, release.null_member),
        (member == "", release.empty_member),
        (member is not None and len(member) > 36, release.long_member),
        (member is not None and 0 < len(member) <= 36 and not _is_uuid(member), release.odd_member),
    ):
        if wrong and error is not None:
            return error
    if (
        key == SHARE_FETCH
        and body.get("is_renew_ack")
        and any(body[limit] for limit in ("max_wait_ms", "min_bytes", "max_bytes", "max_records"))
    ):
        return INVALID_REQUEST
    acknowledges = any(
        row["acknowledgement_batches"] for topic in body.get("topics", ()) for row in topic["partitions"]
    )
    return INVALID_REQUEST if key == SHARE_FETCH and body["share_session_epoch"] == 0 and acknowledges else None


def _is_uuid(member: str) -> bool:
    return len(member) == 22 and all(letter.isalnum() or letter in "-_" for letter in member)


def results_of(step: Step) -> Iterator[tuple[str, int, int]]:
    """Topic id, partition and error code of what it acknowledged, where it got so far as to be looked at."""
    for topic_id, index, batches in step["topics"] if step["answer"] == 0 else ():
        if batches:
            errors = step["partition_errors"].get(f"{topic_id}-{index}", (0, 0))
            yield topic_id, index, errors[step["api"] == SHARE_FETCH]


def _told_by(step: Step, body: Mapping[str, Any]) -> None:
    for topic in body["responses"]:
        for row in topic["partitions"]:
            where = f"{topic['topic_id']}-{row['partition_index']}"
            errors = [row["error_code"], row.get("acknowledge_error_code", 0)]
            if any(errors):
                step["partition_errors"][where] = errors
            for range_ in row.get("acquired_records", ()):
                found = [range_["first_offset"], range_["last_offset"], range_["delivery_count"]]
                step["acquired"].append([topic["topic_id"], row["partition_index"], *found])


def _port(asked: Asked) -> int:
    return int(asked.connection.tcp.source.rpartition(":")[2])


def _wall(now_ns: int) -> float:
    return round(now_ns / 1e9, 5)

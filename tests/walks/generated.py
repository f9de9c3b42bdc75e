"""Conversations of several members with two brokers, made of arbitrary acts: real packets, and what the brokers know of
each request.

One act is a letter of the script; whatever the letters are, the conversation is one that could have happened: clients
do as they like, brokers answer as tests.walks.broker says, in the order in which requests come, one at a time on each
connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kshark.model import ACK, FIN
from tests.conversation import TOPIC, Asked, Connection, Conversation, Member
from tests.walks.broker import NO_ROOM, NONE, NOT_FOUND, WRONG_EPOCH, Answer, Broker, Key, Request, Session

BROKERS: Final = ("10.0.0.8:9092", "10.0.0.9:9092")
#: Group and name of each member.
MEMBERS: Final = (("g", "a"), ("g", "b"), ("h", "c"))
GROUP_AUTHORIZATION_FAILED: Final = 30
#: What requests that were open at the same time may be called.
CROSSED: Final = frozenset({"concurrent_requests", "overtaken", "two_writers", "reopened_elsewhere"})

#: What a fetch is answered with that got records.
_ACQUIRED: Final = [{"first_offset": 0, "last_offset": 9, "delivery_count": 1}]
RECORDS: Final = {
    "responses": [
        {"topic_id": TOPIC, "partitions": [{"partition_index": 0, "acquired_records": _ACQUIRED, "records": b""}]}
    ]
}


class Act(NamedTuple):
    """`what` happens, of which member, with which broker, on the member's first or second connection there.

    `epoch` is relative to the one due where it is a string; without a session an opening is due.
    """

    what: str
    member: int = 0
    broker: int = 0
    line: int = 0
    epoch: int | str = "+0"


@dataclass
class Step:
    """A request, and what its broker knows of it. `causes` None: the packets cannot tell all of it, a finding may say
    anything."""

    asked: Asked
    key: Key
    request: Request
    answer: Answer | None = None
    causes: frozenset[str] | None = frozenset()
    #: The member's request before it, at this broker or on this connection, was refused: going on is a mistake of its
    #: own.
    after_refusal: bool = False
    crossed: bool = False
    #: The session that took it; a fetch that waits is compared with it again.
    session: Session | None = None

    @property
    def place(self) -> tuple[str, str, int]:
        tcp = self.asked.connection.tcp
        return tcp.source, tcp.target, self.asked.correlation_id

    @property
    def refused(self) -> bool:
        return self.answer is not None and self.answer.error in (NOT_FOUND, WRONG_EPOCH)


@dataclass
class Line:
    """A connection of a member; `waiting` are its requests without an answer, the first of which the broker has
    taken."""

    number: int
    connection: Connection
    waiting: list[Step] = field(default_factory=list)
    left: bool = False


class Talk:
    """The conversation that a script makes."""

    def __init__(
        self, script: list[Act], *, release: str = "4.2", room: int = 2000, joined: int = 3, lenient: bool = False
    ) -> None:
        """The first `joined` members join their groups where the capture shows it. `lenient`: overtaken fetches get
        their records (4.3)."""
        self.wire = Conversation(release=release)
        self.steps: list[Step] = []
        self._joined, self._lenient = joined, lenient
        self._brokers = [Broker(release, room) for _ in BROKERS]
        #: The member that each client end belongs to.
        self.owners: dict[str, Key] = {}
        self._lines: dict[tuple[int, int, int], Line] = {}
        self._leaving: list[tuple[Act, Line]] = []
        self._made = 0
        #: Each member's last request to each broker, and on each connection.
        self._last: dict[tuple[Key, int], Step] = {}
        self._last_here: dict[tuple[Key, int], Step] = {}
        #: Sessions of which the packets cannot tell what is due.
        self._murky: set[tuple[Key, int]] = set()
        for act in script:
            self._act(act)

    def _act(self, act: Act) -> None:
        match act.what:
            case "wait":
                self._ask(act, waits=True)
            case "answer":
                self._answer(act, self._line(act))
            case "notice":
                self._notice(act)
            case "fin":
                self._leave(act)
            case "rst":
                self._reset(act)
            case "restart":
                self._restart(act.broker)
            case "pause":
                self.wire.pause(2)
            case _:
                self._ask(act)

    # -- requests

    def _line(self, act: Act) -> Line:
        place = act.member, act.broker, act.line
        if place not in self._lines:
            connection = self.wire.connection(BROKERS[act.broker])
            self._made += 1
            self._lines[place] = Line(self._made, connection)
            self.owners[connection.tcp.source] = MEMBERS[act.member]
            if act.member < self._joined and not any(key[0] == act.member for key in self._lines if key != place):
                self._member(act, connection).join()
        return self._lines[place]

    def _member(self, act: Act, connection: Connection) -> Member:
        group, name = MEMBERS[act.member]
        return Member(connection, group, name.ljust(22, "A"))

    def _ask(self, act: Act, *, waits: bool = False) -> None:
        line, key, broker = self._line(act), MEMBERS[act.member], self._brokers[act.broker]
        session = broker.sessions.get(key)
        epoch = int(act.epoch) if isinstance(act.epoch, int) else self._due(session, act) + int(act.epoch)
        early = GROUP_AUTHORIZATION_FAILED if act.what == "early" else None
        request = Request(line.number, act.what != "acknowledge", epoch, early, act.what == "twice" and epoch == 0)
        member = self._member(act, line.connection)
        asked = (
            member.share_fetch(epoch, [0, 0] if request.twice else ())
            if request.fetch
            else member.share_acknowledge(epoch)
        )
        step = Step(asked, key, request)
        self.steps.append(step)
        line.waiting.append(step)
        places = [*self._lines.items(), *(((left.member, left.broker, 0), other) for left, other in self._leaving)]
        others = [other for place, other in places if place[:2] == (act.member, act.broker) and other is not line]
        for other in (waiting for it in others for waiting in it.waiting):
            step.crossed = other.crossed = True
        if len(line.waiting) == 1:
            self._take(act, step)
            if not (waits and request.fetch and step.answer is not None and step.answer.error == NONE):
                self._answer(act, line)

    def _due(self, session: Session | None, act: Act) -> int:
        """The epoch that a client sends which makes no mistake."""
        return session.due if session is not None else int(act.what == "acknowledge")

    def _take(self, act: Act, step: Step) -> None:
        broker = self._brokers[act.broker]
        line = step.request.connection
        for before in (self._last.get((step.key, act.broker)), self._last_here.get((step.key, line))):
            step.after_refusal |= (
                before is not None
                and before.answer is not None
                and before.answer.error in (NOT_FOUND, WRONG_EPOCH, NO_ROOM)
            )
        step.answer = broker.take(step.key, step.request)
        step.session = broker.sessions.get(step.key)
        self._last[step.key, act.broker] = self._last_here[step.key, line] = step

    def _answer(self, act: Act, line: Line) -> None:
        """The broker answers all that waits on the connection, one by one."""
        while line.waiting:
            step = line.waiting.pop(0)
            if step.answer is None:
                self._take(act, step)
            assert step.answer is not None
            overtaken = step.answer.error == NONE and step.session is not None and self._moved_on(act, step)
            if overtaken and not self._lenient:
                step.answer = Answer(WRONG_EPOCH, CROSSED)
            step.asked.answered(step.answer.error, **(RECORDS if overtaken and self._lenient else {}))
            self._settle(act, step)

    def _moved_on(self, act: Act, step: Step) -> bool:
        """Whether the session that took a fetch has taken another request since."""
        session = step.session
        assert session is not None
        same = self._brokers[act.broker].sessions.get(step.key) is session
        return same and step.request.epoch > 0 and session.last is not step.request

    def _settle(self, act: Act, step: Step) -> None:
        place = step.key, act.broker
        assert step.answer is not None
        step.causes = step.answer.causes
        if "broker_restart" in step.causes:
            step.causes |= {"connection_closed"}  # where it had one connection the packets say no more
        if "old_connection_closed" in step.causes:
            step.causes |= {"unknown"}  # a reset may come from a socket that was closed before
        if (
            step.refused
            and (place in self._murky or step.crossed)
            and not step.answer.causes & {"negative", "ack_epoch_zero"}
        ):
            step.causes = None
        if step.answer.error == NONE and not step.crossed:
            self._murky.discard(place)

    # -- ends

    def _unanswered(self, act: Act, line: Line) -> None:
        for step in line.waiting:
            step.answer, step.causes = None, None
        if line.waiting:
            self._murky.add((MEMBERS[act.member], act.broker))
        line.waiting = []

    def _leave(self, act: Act) -> None:
        """The client closes; what still waits keeps the broker from noticing."""
        line = self._lines.pop((act.member, act.broker, act.line), None)
        if line is None:
            return
        if line.waiting:
            line.connection.tcp._send(0, FIN | ACK)
            self._leaving.append((act, line))
            self._murky.add((MEMBERS[act.member], act.broker))
        else:
            line.connection.close()
            self._brokers[act.broker].end(line.number)

    def _notice(self, act: Act) -> None:
        """The broker answers the connection that was left first, and is reset."""
        if self._leaving:
            left, line = self._leaving.pop(0)
            self._answer(left, line)
            line.connection.reset()
            self._brokers[left.broker].end(line.number)

    def _reset(self, act: Act) -> None:
        line = self._lines.pop((act.member, act.broker, act.line), None)
        if line is not None:
            self._unanswered(act, line)
            line.connection.reset()
            self._brokers[act.broker].end(line.number)

    def _restart(self, broker: int) -> None:
        """The broker goes down and comes back: every connection is reset by it."""
        for place, line in list(self._lines.items()):
            if place[1] == broker:
                self._unanswered(Act("", place[0], broker), line)
                line.connection.tcp.reset(1)
                del self._lines[place]
        for act, line in [it for it in self._leaving if it[0].broker == broker]:
            self._unanswered(act, line)
            line.connection.tcp.reset(1)
            self._leaving.remove((act, line))
        self._brokers[broker].restart()

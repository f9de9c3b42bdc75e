"""The analysis as a stage: events of the time line in, findings out as soon as they are proved.

What a share session's verdicts depend on, and thus what a job must give the Analyzer to get the same findings for some of the sessions:

| events | of |
|---|---|
| Message, Exchange of ShareFetch and ShareAcknowledge | the session's (broker, group, member), on any connection |
| Message, Exchange of ShareGroupHeartbeat | its member, with any broker |
| Message, Exchange of ApiVersions, Metadata | the broker, on any connection |
| Opened, HalfClosed, Closed, Gap, Exchange without a request | every connection with the broker, refused ones too |
| Message of any API | connections that the session uses (a request shows that one is still open) |
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from kshark import limits
from kshark.analysis.evidence import Argument, Judgement, Needs
from kshark.analysis.findings import Tally, finding_of
from kshark.analysis.listing import Listing, ShareSession
from kshark.analysis.reading import answer_of, assignment_of, call_of, member_of, step_of
from kshark.analysis.sessions import UNEXPLAINED, Machine, Verdict
from kshark.analysis.steps import JOINING, LEAVING, Call, Step, reply_of
from kshark.analysis.surroundings import Broker, Connection, Member, Surroundings
from kshark.api_keys import API_VERSIONS, METADATA, SHARE_ACKNOWLEDGE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from kshark.model import Closed, Event, Exchange, Finding, Gap, HalfClosed, Message, Opened

_SHARE: Final = frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE})
#: APIs whose bodies the analysis reads; the others' need not be decoded.
APIS: Final = frozenset({METADATA, API_VERSIONS, SHARE_GROUP_HEARTBEAT, *_SHARE})

_Key = tuple[Broker, str | None, str | None]


class Analyzer:
    """`page` takes events and gives the findings proved by them, `feed` a single one, `close` the rest; then `summary` and `sessions`.

    `steps`: each session keeps a row for every request. `exact`: no step takes the short way; the findings are the same.
    """

    def __init__(self, *, steps: bool = False, exact: bool = False) -> None:
        self._with_steps = steps
        self._exact = exact
        self._around = Surroundings()
        self._machines: OrderedDict[_Key, Machine] = OrderedDict()
        self._asked: dict[int, tuple[Message, Step, Machine]] = {}
        self._forgot = False
        self._tally = Tally()
        self._sessions: list[tuple[int, ShareSession]] = []
        #: Events that are rare; those of each message are told apart in `page`.
        self._takes: Final[dict[type, Callable[[Any], Sequence[Verdict]]]] = {
            Opened: self._opened,
            Gap: self._gap,
            HalfClosed: self._ended,
            Closed: self._ended,
        }
        #: Of a request with its response, if there is one; nothing is looked for in other APIs.
        self._looks: Final[dict[Any, Callable[[Message, Message | None], Sequence[Verdict]]]] = {
            SHARE_FETCH: self._answered,
            SHARE_ACKNOWLEDGE: self._answered,
            SHARE_GROUP_HEARTBEAT: self._heartbeat,
            API_VERSIONS: self._api_versions,
            METADATA: self._metadata,
        }

    def feed(self, event: Event) -> list[Finding]:
        """A page of one event."""
        return self.page((event,))

    def page(self, events: Iterable[Event]) -> list[Finding]:
        """Events in the order of the time line; the findings in the order in which they are proved.

        Most messages are of no share session: all they tell is that a connection is alive, and that takes no more than this loop.
        """
        found: list[Finding] = []
        around, looks, takes = self._around, self._looks, self._takes
        connections, down = around.connections, around.down
        for event in events:
            if isinstance(event, Message):
                if event.kind != "request" or (connection := connections.get(event.flow)) is None:
                    continue
                connection.last_request = event.packet
                if connection.broker is None:
                    around.begin(connection)
                if event.api_key not in _SHARE:
                    continue
                said = self._request(event, connection)
            elif isinstance(event, Exchange):
                self._tally.exchanges += 1
                if (request := event.request) is None:
                    around.orphan(event.flow, event.response)
                    continue
                if down and event.response is not None:
                    around.answered(request.flow)
                if (look := looks.get(request.api_key)) is None:
                    continue
                said = look(request, event.response)
            elif (take := takes.get(type(event))) is not None:
                said = take(event)
            else:
                continue
            if said:
                found += self._findings(said)
        return found

    def close(self) -> list[Finding]:
        """No more events: what waits for an answer gets none."""
        verdicts = [verdict for machine in self._machines.values() for verdict in machine.close()]
        self._machines.clear()
        self._asked.clear()
        return self._findings(verdicts)

    def summary(self) -> dict[str, Any]:
        """`sessions`, `exchanges`, `violations`, `unknown`, `notes`, `gaps`, `by_code`: what was seen and found so far."""
        return self._tally.summary()

    def sessions(self) -> list[ShareSession]:
        """Share sessions in the order in which they began; complete after `close`. The first limits.SESSIONS of them."""
        return [session for _, session in sorted(self._sessions, key=lambda pair: pair[0])]

    def _findings(self, verdicts: Sequence[Verdict]) -> list[Finding]:
        found = [finding_of(verdict) for verdict in verdicts]
        for finding in found:
            self._tally.add(finding)
        return found

    # -- events

    def _opened(self, event: Opened) -> Sequence[Verdict]:
        self._around.connection(event.flow)
        return ()

    def _gap(self, event: Gap) -> Sequence[Verdict]:
        self._tally.gaps += 1
        self._around.lost(event)
        return ()

    def _ended(self, event: HalfClosed | Closed) -> Sequence[Verdict]:
        connection, first = self._around.ended(event)
        said: list[Verdict] = []
        for machine in list(connection.users):
            if first and connection.end is not None:
                machine.ended(connection, connection.end)
            said += machine.settle()
        if connection.over:
            connection.users.clear()
        return said

    # -- share-session requests and other exchanges

    def _request(self, message: Message, connection: Connection) -> Sequence[Verdict]:
        step = step_of(message, connection)
        if step is None or connection.broker is None:
            for user in connection.users:
                user.blind(message.packet, "cut")
            return ()
        key = (connection.broker, step.group_id, step.member_id)
        machine = self._machines.get(key)
        said: Sequence[Verdict] = ()
        if machine is None:
            said = self._begin(key, step)
            machine = self._machines[key]
        else:
            self._machines.move_to_end(key)
        self._asked[id(message)] = (message, step, machine)
        waited_for = machine.ask(step)
        return [*said, *waited_for] if waited_for else said

    def _answered(self, request: Message, response: Message | None) -> Sequence[Verdict]:
        asked = self._asked.pop(id(request), None)
        if asked is None:
            return () if response is None else self._unread(request, response)
        _, step, machine = asked
        return machine.answer(step, None if response is None else answer_of(response))

    def _unread(self, request: Message, response: Message) -> Sequence[Verdict]:
        """A share-session request whose body could not be read; a refusal of it is not passed over."""
        connection = self._around.connections.get(request.flow)
        call = None if connection is None else call_of(request, response, connection)
        reply = reply_of(call.answer.error if call is not None and call.answer is not None else None)
        if call is None or reply not in UNEXPLAINED:
            return ()
        text = f"{call.here} could not be read; it {reply.value} ({call.packets})"
        return [Verdict(UNEXPLAINED[reply], Argument(text, (call,), Needs.EXCHANGE, "unknown"), Judgement("unknown", "cut"))]

    def _heartbeat(self, request: Message, response: Message | None) -> Sequence[Verdict]:
        connection = self._around.connections.get(request.flow)
        named = member_of(request)
        if connection is None or named is None:
            return ()
        group_id, member_id, epoch = named
        member, is_first = self._around.heartbeat(group_id, member_id, None if response is None else assignment_of(response))
        if epoch == JOINING and is_first:
            member.join = call_of(request, response, connection, epoch)
        return self._left(member, call_of(request, response, connection, epoch)) if epoch == LEAVING else ()

    def _left(self, member: Member, leave: Call) -> Sequence[Verdict]:
        said: list[Verdict] = []
        if leave.answer is not None and leave.answer.error == 0:
            for broker in member.brokers:
                machine = self._machines.get((broker, leave.group_id, leave.member_id))
                if machine is not None:
                    machine.left(leave)
                    said += machine.settle()
        return said

    def _api_versions(self, request: Message, response: Message | None) -> Sequence[Verdict]:
        if response is not None:
            self._around.api_versions(request.flow, response)
        return ()

    def _metadata(self, _: Message, response: Message | None) -> Sequence[Verdict]:
        if response is None:
            return ()
        joined = self._around.metadata(response)
        return [verdict for kept, absorbed in joined for verdict in self._join(kept, absorbed, response.packet)]

    # -- machines

    def _begin(self, key: _Key, step: Step) -> Sequence[Verdict]:
        """A machine for a session; beyond the limit the one longest unused is closed for it."""
        broker = key[0]
        member = self._around.member(step.group_id, step.member_id)
        if broker not in member.brokers:
            member.brokers.append(broker)
        self._machines[key] = Machine(broker, member, Listing(self._begun, steps=self._with_steps), exact=self._exact)
        if len(self._machines) <= limits.SESSIONS:
            return ()
        _, oldest = self._machines.popitem(last=False)
        said = oldest.close()
        if not self._forgot:
            said = [*said, _forgotten(step)]
        self._forgot = self._around.forgetful = True
        return said

    def _join(self, kept: Broker, absorbed: Broker, packet: int) -> Sequence[Verdict]:
        """Two addresses turned out to be one broker: what was taken for two sessions is one, of which nothing is certain."""
        said: list[Verdict] = []
        for key in [key for key in self._machines if key[0] is absorbed]:
            machine = self._machines.pop(key)
            other = self._machines.get((kept, *key[1:]))
            if other is None:
                machine.memory.broker = kept
                self._machines[(kept, *key[1:])] = machine
            else:
                other.blind(packet, "hidden_traffic")
                said += machine.close()
        return said

    def _begun(self, packet: int, session: ShareSession) -> None:
        self._tally.sessions += 1
        if len(self._sessions) < limits.SESSIONS:
            self._sessions.append((packet, session))


def _forgotten(step: Step) -> Verdict:
    """Said once: from here on sessions are missing."""
    text = f"more than {limits.SESSIONS} share sessions at once: from {step.here} on ({step.packets}) the longest unused are forgotten"
    return Verdict("SESSIONS_FORGOTTEN", Argument(text, (step,), Needs.EXCHANGE), Judgement("note"))

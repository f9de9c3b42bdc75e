"""The Analyzer: events of the time line in, findings out as soon as they are proved.

Events that the Analyzer needs to judge one session or group. A job that judges only a part of them (a Spark bucket,
say) must receive all of these:

| events | scope |
|---|---|
| Message, Exchange of ShareFetch and ShareAcknowledge | a session's member, with any broker, on any connection |
| Message, Exchange of ShareGroupHeartbeat, ConsumerGroupHeartbeat | its member, with any broker |
| Message, Exchange of ApiVersions, Metadata | the broker, on any connection |
| Message, Exchange that shows or changes settings (facts/settings.py) | the cluster, on any connection |
| Opened, HalfClosed, Closed, Gap, Exchange without a request | every connection with the broker, refused ones too |
| Weird TIME_DISORDER, ACKED_UNSEEN, and those of the clock (facts/clock.py) | the capture |
| Exchange of the five APIs of share coordinators | the group, on any connection |
| Weirds, Messages and Exchanges with codes that rules name; Weirds of GIVEN_UP | every connection |
| Message of any API | connections that the session uses (a request shows that one is still open) |
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import UNSET

from kshark import limits
from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.brokers import Broker, Brokers
from kshark.analysis.facts.calls import Partition, ShareStep, reply_of
from kshark.analysis.facts.connections import ConnectionFacts, Connections, PacketOrder
from kshark.analysis.facts.judge import UNREAD
from kshark.analysis.facts.parties import Parties, Party
from kshark.analysis.facts.reading import SESSION_APIS, answer_of, call_of, step_of
from kshark.analysis.facts.settings import CONFIG_APIS
from kshark.analysis.facts.transactions import TRANSACTION_APIS, Aborted
from kshark.analysis.results.deliveries import (
    Extent,
    Holder,
    InFlightState,
    WaitingGroup,
    extent_of,
    holders_of,
    state_of,
    waiting_of,
)
from kshark.analysis.results.findings import Tally, finding_of
from kshark.analysis.results.outcomes import OutcomesOfMembers
from kshark.analysis.results.sessions import Listed, Listing
from kshark.analysis.rules import BOOK, RuleBook
from kshark.analysis.rules.ends import SESSION_UNKNOWN, SESSIONS_FORGOTTEN, forgotten
from kshark.analysis.runners.byte_faults import ByteFaultRunner
from kshark.analysis.runners.coverage import Coverage, CoverageCounter
from kshark.analysis.runners.exchanges import ExchangeRules
from kshark.analysis.runners.generations import GenerationRunner
from kshark.analysis.runners.members import MemberRunner
from kshark.analysis.runners.partitions import ClusterPartitions
from kshark.analysis.runners.runner import MachineRunner, Runner
from kshark.analysis.runners.sessions import SessionQueue
from kshark.analysis.runners.stateless import StatelessRunner
from kshark.analysis.runners.stored import StoredStateRunner
from kshark.analysis.runners.verdict import Verdict
from kshark.analysis.states.member.state import Members
from kshark.analysis.states.partition.share_partition import Change
from kshark.analysis.states.partition.situations import Acknowledging
from kshark.analysis.states.session.copies import Acquisitions
from kshark.analysis.states.session.state import SessionState
from kshark.analysis.states.tables import CONSUMER
from kshark.anomaly import GIVEN_UP
from kshark.api_keys import API_VERSIONS, METADATA, SHARE_GROUP_HEARTBEAT
from kshark.link.disorder import disorder_ns
from kshark.model import ByMessage, Closed, Event, Exchange, Finding, Gap, HalfClosed, Message, Opened, Weird

#: APIs that show the brokers, their settings and the members; they are read besides the APIs of rules.
_CONTEXT_APIS: Final = frozenset({METADATA, API_VERSIONS, SHARE_GROUP_HEARTBEAT}) | CONFIG_APIS
#: APIs whose bodies the analysis reads. Other bodies need not be decoded.
APIS: Final = _CONTEXT_APIS | BOOK.apis

_Key = tuple[Broker, str | None, str | None]
#: Read a request with its response, if there is one, on its connection, if that is still open.
_Reader = Callable[[Message, Message | None, ConnectionFacts | None], Sequence[Verdict]]


class Analyzer:
    """Judge the events of one time line: `page` and `feed` return the findings that events prove, `close` the rest.

    `sessions`, `steps`: `listed` returns these too. `coverage`: count how often each rule is put to the test; as
    Parties: also by client, and only requests that they select.
    `on_change` is called with every change of records of share partitions.
    `complete`: the capture holds all traffic of its clients, so that hidden traffic is no doubt.
    `transactions`: follow all, for start offsets that are shown; otherwise only answers to ShareFetch show some.
    `exact`: no step takes the fast path; the findings are the same. `book`: the rules.
    """

    def __init__(
        self,
        *,
        sessions: bool = False,
        steps: bool = False,
        coverage: bool | Parties = False,
        complete: bool = False,
        transactions: bool = False,
        on_change: Callable[[Change], object] | None = None,
        exact: bool = False,
        book: RuleBook = BOOK,
    ) -> None:
        self._listed: list[Listed] = []
        self._tally = Tally()
        self._listing = partial(
            Listing, self._begun, self._listed if sessions else None, self._listed if steps else None
        )
        self._clock = PacketOrder()
        self._brokers = Brokers()
        self._connections = Connections(self._brokers, self._clock, complete=complete)
        self._members = Members()
        self._book = book
        self._byte_faults = ByteFaultRunner(book, self._clock)
        parties = coverage if isinstance(coverage, Parties) else None
        self._counter = counter = CoverageCounter(book, parties) if coverage else None
        self._partitions = ClusterPartitions(book, on_change, counter, exact=exact)
        self._session_rules = Runner(book, counter, exact=exact)
        self._sessions: OrderedDict[_Key, SessionQueue] = OrderedDict()
        self._acquisitions = Acquisitions()
        self._requests: ByMessage[tuple[Message, ShareStep, SessionQueue, Sequence[Acknowledging]]] = ByMessage()
        #: How the members of share groups fared.
        self.outcomes: Final = OutcomesOfMembers()
        rules = ExchangeRules(book.of_exchanges, counter)
        members = MemberRunner(book, self._members, self._partitions.last_acquisition, counter, exact=exact)
        consumers = MemberRunner(
            book, Members(), self._partitions.last_acquisition, counter, machine=CONSUMER, exact=exact
        )
        generations = GenerationRunner(book, counter)
        stored = StoredStateRunner(book, self._partitions.store, counter, exact=exact)
        stateless = StatelessRunner(book, counter)
        self._machines: Final[tuple[MachineRunner, ...]] = (members, consumers, generations, stored, stateless)
        #: The readers of one exchange, in their order. Byte faults come first (`_exchange`): an answer without a
        #: request must not count as an earlier one on its connection.
        readers: Final[tuple[tuple[Container[Any], _Reader], ...]] = (
            # These six share no state: their order only decides the order of findings.
            (rules.apis, rules.look),
            (members.apis, members.look),
            (consumers.apis, consumers.look),
            (generations.apis, generations.look),
            (stored.apis, stored.look),
            (stateless.apis, stateless.look),
            # After the members: a session's verdict may wait for the heartbeat that its member has just recorded.
            ({SHARE_GROUP_HEARTBEAT}, self._prove_sessions),
            # Before the records: a leader takes aborted ones out of what it delivers with the same answer.
            (TRANSACTION_APIS if transactions else (), self._transactions),
            # After the rules of one exchange: their findings come before those of sessions and records.
            (SESSION_APIS, self._answer),
            # Last: an exchange is judged by what was known of brokers before it.
            ({API_VERSIONS}, self._api_versions),
            ({METADATA}, self._metadata),
            (CONFIG_APIS, self._settings),
        )
        machines = (machine.apis for machine in self._machines)
        apis = rules.apis.union(_CONTEXT_APIS, SESSION_APIS, *machines, TRANSACTION_APIS if transactions else ())
        #: By API. Exchanges of other APIs have no reader.
        self._readers: Final[dict[Any, tuple[_Reader, ...]]] = {
            api: tuple(reader for read, reader in readers if api in read) for api in apis
        }
        #: By class of event.
        self._handlers: Final[dict[type, Callable[[Any], Sequence[Verdict]]]] = {
            Message: self._message,
            Exchange: self._exchange,
            Opened: self._opened,
            Gap: self._gap,
            HalfClosed: self._ended,
            Closed: self._ended,
            Weird: self._weird,
        }

    def feed(self, event: Event) -> list[Finding]:
        """Do the same as `page` for one event."""
        return self.page((event,))

    def page(self, events: Iterable[Event]) -> list[Finding]:
        """Return the findings that events of the time line prove, in the order in which they are proved."""
        findings: list[Finding] = []
        handlers = self._handlers
        for event in events:
            kind = type(event)
            if kind is Message and event.kind != "request" and event.api_key is not UNSET:  # type: ignore[union-attr]
                continue  # an answer: it is read with its exchange
            if kind in handlers and (verdicts := handlers[kind](event)):
                findings += self._report(verdicts)
        return findings

    def close(self) -> list[Finding]:
        """End the events and return the findings that remain. Requests that wait for an answer get none."""
        if self._clock.complete is not None:
            self._clock.complete.is_over = True
        self.outcomes.close(self._holders, self._brokers.lossy_hosts())
        of_records = self._partitions.close()  # before the sessions: a closed session knows no more of its state
        verdicts = [verdict for session in self._sessions.values() for verdict in session.close()]
        verdicts += [*of_records, *(verdict for machine in self._machines for verdict in machine.close())]
        self._sessions.clear()
        self._requests.clear()
        return self._report(verdicts)

    def summary(self) -> dict[str, Any]:
        """Return `sessions`, `exchanges`, `violations`, `unknown`, `notes`, `gaps`, `by_code`: the counts so far."""
        return self._tally.summary()

    @property
    def coverage(self) -> Coverage | None:
        """How often each rule was put to the test so far; None if that is not counted."""
        return None if self._counter is None else self._counter.coverage

    @property
    def coverage_of_parties(self) -> Mapping[Party, Coverage]:
        """The coverage of each client; empty if that is not counted."""
        return {} if self._counter is None else self._counter.of_parties

    def listed(self) -> list[Listed]:
        """Return the share sessions that ended and the requests since the last call, in the order in which they
        became certain."""
        listed = self._listed[:]
        self._listed.clear()
        return listed

    def in_flight(self, now_ns: int) -> list[InFlightState]:
        """Return the states of all share partitions' records at a time, which must not be in the past."""
        return [state_of(partition, now_ns) for partition in self._partitions.partitions]

    def holders(self, now_ns: int) -> list[Holder]:
        """Return the members that have records acquired at a time, which must not be in the past."""
        return [holder for partition in self._partitions.partitions for holder in holders_of(partition, now_ns)]

    def waiting(self) -> list[WaitingGroup]:
        """Return the share groups that have come to an open transaction."""
        waiting = (
            waiting_of(partition, self._partitions[partition.leader.cluster].transactions.open(partition.partition))
            for partition in self._partitions.partitions
        )
        return [group for group in waiting if group is not None]

    def aborted(self, offset: int) -> list[tuple[Partition, Aborted]]:
        """Return the aborted batches that have an offset, in all partitions."""
        return self._partitions.aborted(offset)

    def extents(self) -> list[Extent]:
        """Return the extent of the records in flight of each share partition: quicker than `in_flight`."""
        return [extent_of(partition) for partition in self._partitions.partitions]

    def open_sessions(self) -> Counter[str | None]:
        """Return the number of share sessions that are certainly open, by group."""
        return Counter(group_id for (_, group_id, _), session in self._sessions.items() if session.state.is_open)

    def _report(self, verdicts: Sequence[Verdict]) -> list[Finding]:
        if self._counter is not None:
            self._counter.add(verdicts)
        reported = [verdict for verdict in verdicts if verdict.is_reported]
        findings = [finding_of(verdict) for verdict in reported]
        for verdict, finding in zip(reported, findings, strict=True):
            self._tally.add(finding)
            if verdict.rule is SESSION_UNKNOWN:
                self.outcomes.lose(verdict)
        return findings

    def _begun(self, step: ShareStep, is_certain: bool) -> None:
        """Count a share session."""
        self._tally.begun()
        self.outcomes.begin(step, is_certain=is_certain)

    def _holders(self, cluster: int, group_id: str | None, now_ns: int) -> Iterator[Holder]:
        """Yield who holds records of a group at a time."""
        for partition in self._partitions[cluster].of_group(group_id):
            yield from holders_of(partition, now_ns)

    # -- messages and exchanges

    def _message(self, message: Message) -> Sequence[Verdict]:
        """Read a request, or a message without a header. A request also shows that its connection is in use."""
        faults: Sequence[Verdict] = ()
        connection = self._connections.by_flow.get(message.flow)
        if message.api_key is UNSET and message.correlation_id is UNSET:
            faults = self._without_header(message, connection)
        if message.kind != "request" or connection is None:
            return faults
        connection.last_request = message.packet
        if connection.broker is None:
            self._connections.begin(connection)
        return self._request(message, connection) if message.api_key in SESSION_APIS else faults

    def _without_header(self, message: Message, connection: ConnectionFacts | None) -> Sequence[Verdict]:
        """Read a message of which only the position and the size are known."""
        if connection is not None and message.weird is not UNSET and "BODY_TOO_SHORT" in message.weird:
            self._connections.broken(connection, message.packet, "cut")
        return self._byte_faults.frame(message, connection)

    def _exchange(self, exchange: Exchange) -> Sequence[Verdict]:
        """Give an exchange to the readers of its API, in their order."""
        self._tally.exchanges += 1
        request, response = exchange.request, exchange.response
        verdicts: Sequence[Verdict] = ()
        if (request is not None and request.weird is not UNSET) or (
            response is not None and response.weird is not UNSET
        ):
            verdicts = self._byte_faults.exchange(exchange, self._connections.by_flow.get(exchange.flow.id))
        if request is None:
            self._connections.orphan(exchange.flow, response)
            return verdicts
        if self._brokers.down and response is not None:
            self._connections.answered(request.flow)
        if (readers := self._readers.get(request.api_key)) is not None:
            connection = self._connections.by_flow.get(request.flow)
            for read in readers:
                if found := read(request, response, connection):
                    verdicts = [*verdicts, *found]
        return verdicts

    def _request(self, message: Message, connection: ConnectionFacts) -> Sequence[Verdict]:
        """Read the request of a share session; its answer comes with its exchange (`_answer`)."""
        step = step_of(message, connection)
        if step is None or connection.broker is None:
            connection.cannot_read(message.packet)
            return ()
        key = (connection.broker, step.group_id, step.member_id)
        session = self._sessions.get(key)
        verdicts: Sequence[Verdict] = ()
        if session is None:
            verdicts = self._begin(key, step)
            session = self._sessions[key]
        else:
            self._sessions.move_to_end(key)
            step.group_id, step.member_id = session.owner  # one string for all requests of the session
            if (before := session.state.here.get(message.flow)) is not None:
                before.last.note_received(step)
        if step.listed or step.doubt is not None:
            session.state.member.lists(step)
        session.state.member.hears(step)
        is_judged = step.listed and step.connection not in session.copied_connections
        acknowledging = self._partitions[connection.broker.cluster].ask(step) if is_judged else ()
        self._requests[id(message)] = message, step, session, acknowledging
        settled = session.ask(step)
        return [*verdicts, *settled] if settled else verdicts

    def _answer(
        self, request: Message, response: Message | None, connection: ConnectionFacts | None
    ) -> Sequence[Verdict]:
        """Read the answer to a share session's request, or that there is none."""
        waiting = self._requests.pop(id(request), None)
        if waiting is None:
            return () if response is None else self._unreadable(request, response, connection)
        _, step, session, acknowledging = waiting
        answer = None if response is None else answer_of(response)
        acquired = () if answer is None else answer.acquired  # read before the session drops it
        if step.connection not in session.copied_connections:
            throttle_ms = 0 if response is None else getattr(response.body, "throttle_time_ms", 0)
            self.outcomes.count(session.state.broker.cluster, step, answer, throttle_ms or 0)
        copied: Sequence[Verdict] = ()
        if answer is not None and acquired and step.connection not in session.copied_connections:
            original = self._acquisitions.elsewhere(step, answer, session.state)
            if original is not None:
                copied = session.mark_copied(step, answer, original)
        # The session settles the step before the partitions judge its records.
        verdicts = session.answer(step, answer)
        partitions = self._partitions[session.state.broker.cluster]
        if step.connection in session.copied_connections:
            partitions.drop(acknowledging)
            return [*copied, *verdicts]
        of_records = partitions.answer(step, acknowledging, acquired, session.state)
        if step.connection.ends and answer is not None and not session.waits_on(step.connection):
            partitions.ended(step.connection, session, answer)  # the broker notices the end only now
        return [*verdicts, *of_records] if of_records else verdicts

    def _unreadable(self, request: Message, response: Message, connection: ConnectionFacts | None) -> Sequence[Verdict]:
        """Read the answer to a share session's request whose body could not be read. A refusal is reported."""
        if connection is None:
            return ()
        self._connections.unread(connection, request, response)
        call = call_of(request, response, connection)
        reply = reply_of(None if call.answer is None else call.answer.error)
        rule = self._book.catch_alls.get(reply)
        if rule is None:
            return ()
        text = f"{call.here} could not be read; it {reply.value} ({call.packets})"
        argument = Argument(text, (call,), EXCHANGE, "unknown")
        return [Verdict(rule, argument, UNREAD, "explanation")]

    def _prove_sessions(self, request: Message, *_: object) -> Sequence[Verdict]:
        """Settle the sessions whose verdicts wait for this heartbeat of their member."""
        broker = self._brokers.at_address(request.broker)
        member = self._members.get(
            broker, getattr(request.body, "group_id", None), getattr(request.body, "member_id", None)
        )
        beat = None if member is None else member.before
        if member is None or beat is None or beat.packet != request.packet:
            return ()
        waiting = [self._sessions.get((one, beat.group_id, beat.member_id)) for one in member.waiting]
        return [verdict for session in waiting if session is not None for verdict in session.settle()]

    def _api_versions(
        self, _: Message, response: Message | None, connection: ConnectionFacts | None
    ) -> Sequence[Verdict]:
        """Take the APIs that a broker offers."""
        if response is not None and connection is not None and connection.broker is not None:
            connection.broker.proxies.answers(connection.flow, response.packet)
            connection.broker.offers(response)
        return ()

    def _metadata(self, _: Message, response: Message | None, __: ConnectionFacts | None) -> Sequence[Verdict]:
        """Take the brokers of a cluster; two addresses may turn out to be one broker."""
        if response is None:
            return ()
        verdicts: list[Verdict] = []
        joined = self._brokers.metadata(response)
        for broker, before in self._brokers.moved():
            self._partitions[before].forget(broker)
        for kept, absorbed in joined:
            self._connections.joined(kept, absorbed)
            verdicts += self._join(kept, absorbed, response.packet)
        return verdicts

    def _transactions(
        self, request: Message, response: Message | None, connection: ConnectionFacts | None
    ) -> Sequence[Verdict]:
        """Take what an exchange shows of transactions."""
        broker = None if connection is None else connection.broker
        self._partitions[0 if broker is None else broker.cluster].transactions.learn(request, response)
        return ()

    def _settings(self, request: Message, response: Message | None, _: ConnectionFacts | None) -> Sequence[Verdict]:
        """Take the settings of brokers and groups."""
        self._brokers.settings.learn(request, response)
        return ()

    # -- connections

    def _opened(self, event: Opened) -> Sequence[Verdict]:
        self._connections.of(event.flow)
        return ()

    def _weird(self, event: Weird) -> Sequence[Verdict]:
        if event.code in GIVEN_UP and event.flow is not None:
            self._connections.give_up(event)
            return ()
        if event.flow is not None and event.code in self._byte_faults.codes:
            connection = self._connections.by_flow.get(event.flow)
            if connection is not None and event.code == "FRAME_LENGTH_INVALID":
                self._connections.broken(connection, event.packet, "resync")
            elif connection is not None and event.code == "FRAME_TRUNCATED_AT_CLOSE":
                self._connections.unfinished(connection, event)
            return self._byte_faults.event(event, connection)
        if event.code == "PACKETS_DROPPED" and self._clock.complete is not None:
            self._clock.complete.is_refuted = True
        self._clock.durations.note(event)
        self._clock.drops.note(event)
        most_ns = disorder_ns(event)
        if most_ns is not None:
            self._clock.disorder_ns = max(self._clock.disorder_ns, most_ns)
        return ()

    def _gap(self, event: Gap) -> Sequence[Verdict]:
        self._tally.gaps += 1
        self._connections.lost(event)
        return ()

    def _ended(self, event: HalfClosed | Closed) -> Sequence[Verdict]:
        connection, is_first = self._connections.ended(event)
        verdicts: list[Verdict] = []
        if type(event) is Closed:
            verdicts += self._byte_faults.ended(connection, event)
        for session in [*connection.users.values()]:
            if is_first and connection.end is not None:
                is_noticed = connection.end.by == "broker" or not session.waits_on(connection)
                session.ended(connection, connection.end)
                partitions = self._partitions[session.state.broker.cluster]
                partitions.ended(connection, session, connection.end, noticed=is_noticed)
            verdicts += session.settle()
        if connection.over:
            connection.leave_all()
        return verdicts

    # -- sessions

    def _begin(self, key: _Key, step: ShareStep) -> Sequence[Verdict]:
        """Begin a session; beyond limits.SESSIONS close the one that was unused for longest."""
        broker = key[0]
        member = self._members.of(broker, step.group_id, step.member_id)
        member.brokers[broker] = None
        state = SessionState(broker, member)
        self._sessions[key] = SessionQueue(self._session_rules, state, self._listing(), key[1:])
        if len(self._sessions) <= limits.SESSIONS:
            return ()
        _, oldest = self._sessions.popitem(last=False)
        self._members.forgetful = True
        return [*oldest.close(), *self._session_rules.note_once(SESSIONS_FORGOTTEN, forgotten(step))]

    def _join(self, kept: Broker, absorbed: Broker, packet: int) -> Sequence[Verdict]:
        """Join the sessions of two addresses that turned out to be one broker. Where a member had a session with each,
        nothing is certain of the one that is left."""
        verdicts: list[Verdict] = []
        for key in [key for key in self._sessions if key[0] is absorbed]:
            session = self._sessions.pop(key)
            other = self._sessions.get((kept, *key[1:]))
            if other is None:
                session.moved(kept)
                self._sessions[(kept, *key[1:])] = session
            else:
                other.blind(packet, "hidden_traffic")
                verdicts += session.close()
        return verdicts

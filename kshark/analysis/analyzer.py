"""The analysis as a stage: events of the time line in, findings out as soon as they are proved.

What verdicts depend on, and thus what a job must give the Analyzer to get the same findings for some of the sessions
and groups:

| events | of |
|---|---|
| Message, Exchange of ShareFetch and ShareAcknowledge | a session's member, with any broker, on any connection |
| Message, Exchange of ShareGroupHeartbeat | its member, with any broker |
| Message, Exchange of ApiVersions, Metadata | the broker, on any connection |
| Opened, HalfClosed, Closed, Gap, Exchange without a request | every connection with the broker, refused ones too |
| Weird TIME_DISORDER, ACKED_UNSEEN | the capture |
| Exchange of the five APIs of share coordinators | the group, on any connection |
| Weirds, Messages and Exchanges with codes that rules name | every connection |
| Message of any API | connections that the session uses (a request shows that one is still open) |
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import UNSET

from kshark import limits
from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.brokers import Broker, Brokers
from kshark.analysis.facts.calls import ShareStep, reply_of
from kshark.analysis.facts.connections import ConnectionFacts, Connections, PacketOrder
from kshark.analysis.facts.judge import Judgement
from kshark.analysis.facts.reading import SESSION_APIS, answer_of, call_of, step_of
from kshark.analysis.results.deliveries import Holder, InFlightState, holders_of, state_of
from kshark.analysis.results.findings import Tally, finding_of
from kshark.analysis.results.sessions import Listed, Listing
from kshark.analysis.rules import BOOK, RuleBook
from kshark.analysis.rules.ends import SESSIONS_FORGOTTEN, forgotten
from kshark.analysis.runners.byte_faults import ByteFaultRunner
from kshark.analysis.runners.coverage import Coverage, CoverageCounter
from kshark.analysis.runners.exchanges import ExchangeRules
from kshark.analysis.runners.members import MemberRunner
from kshark.analysis.runners.partitions import ClusterPartitions
from kshark.analysis.runners.runner import MachineRunner, Runner
from kshark.analysis.runners.sessions import ShareSessionRunner
from kshark.analysis.runners.stateless import StatelessRunner
from kshark.analysis.runners.stored import StoredStateRunner
from kshark.analysis.runners.verdict import Verdict
from kshark.analysis.states.member.state import Members
from kshark.analysis.states.partition.share_partition import Change
from kshark.analysis.states.partition.situations import Acknowledging
from kshark.analysis.states.session.copies import Acquisitions
from kshark.analysis.states.session.state import SessionState
from kshark.api_keys import API_VERSIONS, METADATA, SHARE_ACKNOWLEDGE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from kshark.link.disorder import disorder_ns
from kshark.model import ByMessage, Closed, Event, Exchange, Finding, Gap, HalfClosed, Message, Opened, Weird

#: What is read beside the rules' own APIs: who the brokers are, and who the members.
_AROUND: Final = frozenset({METADATA, API_VERSIONS, SHARE_GROUP_HEARTBEAT})
#: APIs whose bodies the analysis reads; the others' need not be decoded.
APIS: Final = _AROUND | BOOK.apis

_Key = tuple[Broker, str | None, str | None]
#: Takes a request with its response, if there is one.
_Look = Callable[[Message, Message | None], Sequence[Verdict]]


class Analyzer:
    """`page` takes events and gives the findings proved by them, `feed` a single one, `close` the rest; `summary`
    counts.

    `sessions`, `steps`: what `listed` gives; `coverage`: it is counted; `tell` is told every change of records of share
    partitions.
    `exact`: no step takes the fast path; the findings are the same. `book`: the rules.
    """

    def __init__(
        self,
        *,
        sessions: bool = False,
        steps: bool = False,
        coverage: bool = False,
        tell: Callable[[Change], object] | None = None,
        exact: bool = False,
        book: RuleBook = BOOK,
    ) -> None:
        self._listed: list[Listed] = []
        self._tally = Tally()
        self._listing = partial(
            Listing, self._tally.begun, self._listed if sessions else None, self._listed if steps else None
        )
        self._clock = PacketOrder()
        self._brokers = Brokers()
        self._connections = Connections(self._brokers, self._clock)
        self._members = Members()
        self._book = book
        self._rules = ExchangeRules(book.of_exchanges)
        self._oddities = ByteFaultRunner(book, self._clock)
        self._covering = covering = CoverageCounter(book) if coverage else None
        self._deliveries = ClusterPartitions(book, tell, covering, exact=exact)
        self._asking = Runner(book, covering, exact=exact)
        self._watchers: Final[tuple[MachineRunner, ...]] = (
            MemberRunner(book, self._members, self._deliveries.last_acquisition, covering, exact=exact),
            StoredStateRunner(book, self._deliveries.store, covering, exact=exact),
            StatelessRunner(book, covering),
        )
        self._runners: OrderedDict[_Key, ShareSessionRunner] = OrderedDict()
        self._handed = Acquisitions()
        self._asked: ByMessage[tuple[Message, ShareStep, ShareSessionRunner, Sequence[Acknowledging]]] = ByMessage()
        self._forgot = False
        #: Events that are rare; those of each message are told apart in `page`.
        self._takes: Final[dict[type, Callable[[Any], Sequence[Verdict]]]] = {
            Opened: self._opened,
            Gap: self._gap,
            HalfClosed: self._ended,
            Closed: self._ended,
            Weird: self._weird,
        }
        looks: Final[dict[Any, _Look]] = {
            SHARE_FETCH: self._answered,
            SHARE_ACKNOWLEDGE: self._answered,
            SHARE_GROUP_HEARTBEAT: self._heartbeat,
            API_VERSIONS: self._api_versions,
            METADATA: self._metadata,
        }
        #: Whom an exchange of an API is told: whether rules of one exchange, which watchers, and who else; other APIs
        #: concern nobody.
        self._told: Final[dict[Any, tuple[bool, list[MachineRunner], _Look | None]]] = {
            api: (api in self._rules.apis, [one for one in self._watchers if api in one.apis], looks.get(api))
            for api in self._rules.apis.union(looks, *(watcher.apis for watcher in self._watchers))
        }

    def feed(self, event: Event) -> list[Finding]:
        """A page of one event."""
        return self.page((event,))

    def page(self, events: Iterable[Event]) -> list[Finding]:
        """Events in the order of the time line; the findings in the order in which they are proved.

        Most messages are of no share session: all they tell is that a connection is alive, and that takes no more than
        this loop."""
        found: list[Finding] = []
        takes, told, connections, down, tests = (
            self._takes,
            self._told,
            self._connections.by_flow,
            self._brokers.down,
            self._rules.tests,
        )
        exchanges = 0
        said: Sequence[Verdict]
        for event in events:
            if type(event) is Message:
                if event.api_key is UNSET and event.correlation_id is UNSET:
                    found += self._judged(self._headless(event))
                if event.kind != "request" or (connection := connections.get(event.flow)) is None:
                    continue
                connection.last_request = event.packet
                if connection.broker is None:
                    self._connections.begin(connection)
                if event.api_key not in SESSION_APIS:
                    continue
                said = self._request(event, connection)
            elif type(event) is Exchange:
                exchanges += 1
                request, response = event.request, event.response
                if (request is not None and request.weird is not UNSET) or (
                    response is not None and response.weird is not UNSET
                ):
                    found += self._judged(self._oddities.exchange(event, connections.get(event.flow.id)))
                if request is None:
                    self._connections.orphan(event.flow, response)
                    continue
                if down and response is not None:
                    self._connections.answered(request.flow)
                if request.api_key not in told:
                    continue
                is_ruled, watchers, look = told[request.api_key]
                if is_ruled and request.body is not None:
                    test = tests.get((request.api_key, request.version)) or self._rules.test(request)
                    if self._covering is not None:
                        self._covering.coverage.asked.update(self._rules.put_to_the_test(request, response is not None))
                    if numbers := test(request.body):
                        found += self._judged(
                            self._rules.broken(numbers, request, response, connections.get(request.flow))
                        )
                if watchers and (connection := connections.get(request.flow)) is not None:
                    for watcher in watchers:
                        if said := watcher.look(request, response, connection):
                            found += self._judged(said)
                if look is None:
                    continue
                said = look(request, response)
            elif (take := takes.get(type(event))) is not None:
                said = take(event)
            else:
                continue
            if said:
                found += self._judged(said)
        self._tally.exchanges += exchanges
        return found

    def close(self) -> list[Finding]:
        """No more events: what waits for an answer gets none."""
        of_records = self._deliveries.close()  # sessions know no more of themselves once they are closed
        verdicts = [verdict for runner in self._runners.values() for verdict in runner.close()]
        verdicts += [*of_records, *(verdict for watcher in self._watchers for verdict in watcher.close())]
        self._runners.clear()
        self._asked.clear()
        return self._judged(verdicts)

    def summary(self) -> dict[str, Any]:
        """`sessions`, `exchanges`, `violations`, `unknown`, `notes`, `gaps`, `by_code`: what was seen and found so
        far."""
        return self._tally.summary()

    @property
    def coverage(self) -> Coverage | None:
        """How often each rule was put to the test so far, where that is counted."""
        return None if self._covering is None else self._covering.coverage

    def listed(self) -> list[Listed]:
        """Since the last time: share sessions that are over, and requests, in the order in which that became
        certain."""
        listed = self._listed[:]
        self._listed.clear()
        return listed

    def in_flight(self, now_ns: int) -> list[InFlightState]:
        """What the records of all share partitions are in at that time, which is none in the past."""
        return [state_of(partition, now_ns) for partition in self._deliveries.partitions]

    def holders(self, now_ns: int) -> list[Holder]:
        """Who has records acquired at that time."""
        return [holder for partition in self._deliveries.partitions for holder in holders_of(partition, now_ns)]

    def _judged(self, verdicts: Sequence[Verdict]) -> list[Finding]:
        if self._covering is not None:
            self._covering.say(verdicts)
        found = [finding_of(verdict) for verdict in verdicts if verdict.is_reported]
        for finding in found:
            self._tally.add(finding)
        return found

    # -- events

    def _opened(self, event: Opened) -> Sequence[Verdict]:
        self._connections.of(event.flow)
        return ()

    def _headless(self, message: Message) -> Sequence[Verdict]:
        """A message of which nothing is known but its place and size."""
        connection = self._connections.by_flow.get(message.flow)
        if connection is not None and message.weird is not UNSET and "BODY_TOO_SHORT" in message.weird:
            self._connections.broken(connection, message.packet, "cut")
        return self._oddities.frame(message, connection)

    def _weird(self, event: Weird) -> Sequence[Verdict]:
        if event.flow is not None and event.code in self._oddities.codes:
            connection = self._connections.by_flow.get(event.flow)
            if connection is not None and event.code == "FRAME_LENGTH_INVALID":
                self._connections.broken(connection, event.packet, "resync")
            elif connection is not None and event.code == "FRAME_TRUNCATED_AT_CLOSE":
                self._connections.unfinished(connection, event)
            return self._oddities.event(event, connection)
        most_ns = disorder_ns(event)
        if most_ns is not None:
            self._clock.disorder_ns = max(self._clock.disorder_ns, most_ns)
        return ()

    def _gap(self, event: Gap) -> Sequence[Verdict]:
        self._tally.gaps += 1
        self._connections.lost(event)
        return ()

    def _ended(self, event: HalfClosed | Closed) -> Sequence[Verdict]:
        connection, first = self._connections.ended(event)
        said: list[Verdict] = [*self._oddities.ended(connection, event)] if type(event) is Closed else []
        for runner in [*connection.users.values()]:
            if first and connection.end is not None:
                noticed = connection.end.by == "broker" or not runner.waits_on(connection)
                runner.ended(connection, connection.end)
                self._deliveries[runner.state.broker.cluster].ended(connection, runner, connection.end, noticed=noticed)
            said += runner.settle()
        if connection.over:
            connection.leave_all()
        return said

    # -- share-session requests and other exchanges

    def _request(self, message: Message, connection: ConnectionFacts) -> Sequence[Verdict]:
        step = step_of(message, connection)
        if step is None or connection.broker is None:
            connection.cannot_read(message.packet)
            return ()
        key = (connection.broker, step.group_id, step.member_id)
        runner = self._runners.get(key)
        said: Sequence[Verdict] = ()
        if runner is None:
            said = self._begin(key, step)
            runner = self._runners[key]
        else:
            self._runners.move_to_end(key)
            step.group_id, step.member_id = runner.owner  # one text for all of them
        if step.listed or step.doubt is not None:
            runner.state.member.lists(step)
        runner.state.member.hears(step)
        looked_at = step.listed and step.connection not in runner.copied_connections
        acknowledging = self._deliveries[connection.broker.cluster].ask(step) if looked_at else ()
        self._asked[id(message)] = message, step, runner, acknowledging
        waited_for = runner.ask(step)
        return [*said, *waited_for] if waited_for else said

    def _answered(self, request: Message, response: Message | None) -> Sequence[Verdict]:
        asked = self._asked.pop(id(request), None)
        if asked is None:
            return () if response is None else self._unread(request, response)
        _, step, runner, acknowledging = asked
        answer = None if response is None else answer_of(response)
        acquired = () if answer is None else answer.acquired  # the session lets go of it
        twin = None
        if answer is not None and acquired and step.connection not in runner.copied_connections:
            twin = self._handed.elsewhere(step, answer, runner.state)
        twice = () if twin is None else runner.echo(step, answer, twin)
        said, deliveries = runner.answer(step, answer), self._deliveries[runner.state.broker.cluster]
        if step.connection in runner.copied_connections:
            deliveries.drop(acknowledging)
            return [*twice, *said]
        of_records = deliveries.answer(step, acknowledging, acquired, runner.state)
        if step.connection.ends and answer is not None and not runner.waits_on(step.connection):
            deliveries.ended(step.connection, runner, answer)  # only now the broker notices
        return [*said, *of_records] if of_records else said

    def _unread(self, request: Message, response: Message) -> Sequence[Verdict]:
        """A share-session request whose body could not be read; a refusal of it is not passed over."""
        connection = self._connections.by_flow.get(request.flow)
        if connection is not None:
            self._connections.unread(connection, request, response)
        call = None if connection is None else call_of(request, response, connection)
        reply = reply_of(call.answer.error if call is not None and call.answer is not None else None)
        rule = self._book.catch_alls.get(reply)
        if call is None or rule is None:
            return ()
        text = f"{call.here} could not be read; it {reply.value} ({call.packets})"
        return [
            Verdict(
                rule,
                Argument(text, (call,), EXCHANGE, "unknown"),
                Judgement("unknown", "cut"),
                "explanation",
            )
        ]

    def _heartbeat(self, request: Message, _: Message | None) -> Sequence[Verdict]:
        """What a heartbeat proves for the sessions of its member; what it says of the member itself is known by now."""
        broker = self._brokers.at_address(request.broker)
        member = self._members.get(
            broker, getattr(request.body, "group_id", None), getattr(request.body, "member_id", None)
        )
        beat = None if member is None else member.before
        if member is None or beat is None or beat.packet != request.packet:
            return ()
        waiting = [self._runners.get((one, beat.group_id, beat.member_id)) for one in member.waiting]
        return [verdict for runner in waiting if runner is not None for verdict in runner.settle()]

    def _api_versions(self, request: Message, response: Message | None) -> Sequence[Verdict]:
        connection = self._connections.by_flow.get(request.flow)
        if response is not None and connection is not None and connection.broker is not None:
            connection.broker.offers(response)
        return ()

    def _metadata(self, _: Message, response: Message | None) -> Sequence[Verdict]:
        if response is None:
            return ()
        said: list[Verdict] = []
        for kept, absorbed in self._brokers.metadata(response):
            self._connections.joined(kept, absorbed)
            said += self._join(kept, absorbed, response.packet)
        return said

    # -- sessions

    def _begin(self, key: _Key, step: ShareStep) -> Sequence[Verdict]:
        """A runner for a session; beyond the limit the one longest unused is closed for it."""
        broker = key[0]
        member = self._members.of(broker, step.group_id, step.member_id)
        member.brokers[broker] = None
        state = SessionState(broker, member)
        self._runners[key] = ShareSessionRunner(self._asking, state, self._listing(), key[1:])
        if len(self._runners) <= limits.SESSIONS:
            return ()
        _, oldest = self._runners.popitem(last=False)
        said = (
            oldest.close()
            if self._forgot
            else [*oldest.close(), Verdict(SESSIONS_FORGOTTEN, forgotten(step), Judgement("note"))]
        )
        self._forgot = self._members.forgetful = True
        return said

    def _join(self, kept: Broker, absorbed: Broker, packet: int) -> Sequence[Verdict]:
        """Two addresses turned out to be one broker: what was taken for two sessions is one, of which nothing is
        certain."""
        said: list[Verdict] = []
        for key in [key for key in self._runners if key[0] is absorbed]:
            runner = self._runners.pop(key)
            other = self._runners.get((kept, *key[1:]))
            if other is None:
                runner.moved(kept)
                self._runners[(kept, *key[1:])] = runner
            else:
                other.blind(packet, "hidden_traffic")
                said += runner.close()
        return said

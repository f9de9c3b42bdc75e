"""Fetch sessions (KIP-227): why a broker refuses their epochs, and why it does not know them. Rules 150 to 152.

A fetch session is a share session without acknowledgements: the broker makes its id, epoch 0 opens it, each request
with the epoch that is due advances it, epoch 0 or -1 with its id closes it. It belongs to no connection.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final

from msgspec import UNSET, Struct

from kshark import limits
from kshark.analysis.facts.bases import ANSWER_RECEIVED, NO_CONNECTION, Limit
from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import next_epoch
from kshark.analysis.facts.reading import is_whole, record_spans, topic_key
from kshark.analysis.rules.rule import NOTES, NOTES_TOO, Rule, Verdict
from kshark.api_keys import FETCH
from kshark.endpoints import host_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import client_id_of
from kshark.incidents.series import Case, SeriesWatcher, client_of, without_bodies
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent
from kshark.model import Closed, Exchange, Gap, HalfClosed, Message, Witness
from kshark.records.spans import UNREAD
from kshark_dissectors.enums import ErrorCode

_NOT_FOUND: Final = int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
_INVALID_EPOCH: Final = int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
#: Epochs of requests that end the session whose id they have, and fetch all that they list.
_FULL: Final = (0, -1)
#: Sessions that a client opens in a row without using one, that show that it opens one with each Fetch.
_OPENED_IN_ROW: Final = 5
#: Answers in a row with the same first offset of a partition.
_NO_PROGRESS: Final = 10
#: A broker that ends closes its connections within this time.
_TOGETHER_NS: Final = 5_000_000_000
#: Epochs that are further apart may have wrapped.
_WRAPPED: Final = 1 << 30

FETCH_SESSION_EPOCH: Final = Rule(
    number=150,
    code="FETCH_SESSION_EPOCH",
    text="A Fetch has another epoch than the one that is due in its session.",
    source="KIP-227; Kafka: FetchManager.newContext, FetchSessionHandler",
    rests_on=(ANSWER_RECEIVED, Limit("SESSIONS")),
    blame=("client",),
    verdicts=NOTES_TOO,
    causes=("replay", "stale", "skip_after_timeout", "skip_ahead", "lost_answer", "negative", "unknown"),
    act="used a wrong epoch in its fetch session",
    must="Each Fetch of a session has the epoch after that of the last answered one; after a Fetch without an answer "
    "the client opens a new session.",
    advice="Count an epoch when its answer arrives. After an error, a timeout or a lost connection, send epoch 0 with "
    "the old session id: that closes the session and opens a new one.",
    weight=45,
)
FETCH_SESSION_NOT_FOUND: Final = Rule(
    number=151,
    code="FETCH_SESSION_NOT_FOUND",
    text="A broker does not know the fetch session of a Fetch.",
    source="KIP-227; Kafka: FetchManager.newContext, FetchSessionCache",
    rests_on=(NO_CONNECTION, ANSWER_RECEIVED, Limit("SESSIONS")),
    blame=("client",),
    verdicts=NOTES_TOO,
    causes=("evicted", "opened_each_time", "broker_restart", "never_opened", "final_epoch", "emptied", "unknown"),
    act="used a fetch session that was never opened, or opened one with each Fetch",
    must="A client uses the session that it has opened, or asks for none (session id 0, epoch -1).",
    advice="Let the client that opens a session with each Fetch use its session, or send epoch -1. Until then raise "
    "max.incremental.fetch.session.cache.slots of the broker (default 1000).",
    weight=45,
)


FETCH_NO_PROGRESS: Final = Rule(
    number=152,
    code="FETCH_NO_PROGRESS",
    text="A fetch session delivers the same records of a partition again and again.",
    source="KIP-227; Kafka: FetchSessionHandler (a partition is listed when its offset changes)",
    rests_on=(Limit("RETRIED_PLACES"),),
    blame=(),
    verdicts=NOTES,
    must="A consumer that has received records fetches from the offset after them.",
    advice="Find out why the consumer does not go on: it cannot read a record, seeks back after an error, or does not "
    "list the partition in its session when the offset changes.",
    weight=45,
)


class _Used(Struct, frozen=True):
    """A Fetch of a session. `answer_packet` None: it has no answer."""

    epoch: int
    flow: int
    request_packet: int
    answer_packet: int | None
    witness: tuple[Witness, ...]


class _Reached(Struct):
    """The first offset that answers had for a partition, how often in a row, and the first of them."""

    offset: int
    answered: tuple[Witness, ...]
    times: int = 1


class _Session(Struct):
    """A session of a broker. `last`: the last Fetch that the broker counted. `lost`: a later one without an answer,
    and whether a gap may have taken that. `ended`: the cause of its end, if the capture shows one. `reached`: by topic
    and partition, since its last request that lists or forgets it."""

    last: _Used | None = None
    lost: _Used | None = None
    is_lost_in_gap: bool = False
    ended: str | None = None
    ended_by: tuple[Witness, ...] = ()
    reached: dict[tuple[str, int], _Reached] = {}


class _Reason(Struct, frozen=True):
    """The explanation of a refusal; `facts` completes "...: "."""

    facts: str
    cause: str
    verdict: Verdict = "note"
    because: str | None = None
    before: tuple[Witness, ...] = ()


class _Opener(Struct):
    """A connection that opens sessions, with the last Fetch that did, answered in packet `known`. `opened`: in a row
    since packet `since`, with none of them used."""

    exchange: Exchange
    known: int
    since: int
    opened: int = 1


class FetchSessions(SeriesWatcher):
    """Follow the fetch sessions of all brokers."""

    rows = (FETCH_SESSION_EPOCH, FETCH_SESSION_NOT_FOUND, FETCH_NO_PROGRESS)
    apis = judges = frozenset({FETCH})
    kinds = (HalfClosed, Closed, Gap)

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._sessions: OrderedDict[tuple[Broker, int], _Session] = OrderedDict()
        self._openers: dict[int, _Opener] = {}
        #: Connections that lack bytes of the broker.
        self._gaps: set[int] = set()
        #: By broker, the packet in which it ended the last of its connections, and when it ended one of each host.
        self._restarts: dict[Broker, int] = {}
        self._ends: dict[Broker, dict[str, int]] = {}

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        request, response = exchange.request, exchange.response
        if request is None or not is_whole(request):
            return NOTHING
        body: Any = request.body
        session_id = getattr(body, "session_id", UNSET)
        if session_id is UNSET:  # before version 7
            return NOTHING
        broker = self.scene.broker_of(exchange.flow)
        key = broker, session_id
        if response is None:
            if body.session_epoch not in _FULL:
                self._lose(key, exchange, body.session_epoch)
            return NOTHING
        if not is_whole(response):
            self._sessions.pop(key, None)
            return NOTHING
        answer: Any = response.body
        if body.session_epoch in _FULL:
            self._full(key, exchange, answer)
            return NOTHING
        self._openers.pop(exchange.flow.id, None)
        if answer.error_code == _INVALID_EPOCH:
            return self._refused(exchange, FETCH_SESSION_EPOCH, self._wrong_epoch(key, exchange, body.session_epoch))
        if answer.error_code == _NOT_FOUND:
            reason = self._not_found(key)
            self._sessions.pop(key, None)
            refused = self._refused(exchange, FETCH_SESSION_NOT_FOUND, reason)
            opener = self._opener(broker) if reason.cause == "evicted" else None
            return refused if opener is None else [*refused, *self._opened_each_time(opener)]
        self._advance(key, exchange, answer)
        session = self._sessions.get(key)
        return NOTHING if session is None else self._progress(session, exchange, body, answer)

    # -- what the broker keeps

    def _full(self, key: tuple[Broker, int], exchange: Exchange, answer: Any) -> None:
        """Take a full fetch: it ends the session that it names, and may open another one."""
        broker, session_id = key
        if session_id and (session := self._sessions.get(key)) is not None:
            session.ended, session.ended_by = "final_epoch", witness_of(exchange)
        opened = answer.session_id if not answer.error_code else 0
        self._note_opened(exchange, session_id, opened)
        if opened:
            self._keep((broker, opened), _Session(_used(exchange, 0)))

    def _advance(self, key: tuple[Broker, int], exchange: Exchange, answer: Any) -> None:
        """Take an answer other than the refusals of sessions."""
        session = self._sessions.get(key)
        if answer.error_code:  # it is unknown whether the request was counted
            self._sessions.pop(key, None)
            return
        if session is None:
            session = _Session()
        self._keep(key, session)
        session.last, session.lost = _used(exchange), None
        if not answer.session_id:
            session.ended, session.ended_by = "emptied", witness_of(exchange)

    def _lose(self, key: tuple[Broker, int], exchange: Exchange, epoch: int) -> None:
        session = self._sessions.get(key)
        last = None if session is None else session.last
        if session is not None and last is not None and epoch == next_epoch(last.epoch):
            session.lost = _used(exchange)
            session.is_lost_in_gap = exchange.flow.id in self._gaps or exchange.outcome != "unanswered"

    def _keep(self, key: tuple[Broker, int], session: _Session) -> None:
        self._sessions[key] = session
        self._sessions.move_to_end(key)
        if len(self._sessions) > limits.SESSIONS:
            self._sessions.popitem(last=False)

    def _note_opened(self, exchange: Exchange, session_id: int, opened: int) -> None:
        """Take a full fetch of a client that may open a session with each Fetch."""
        request, response = exchange.request, exchange.response
        assert request is not None
        assert response is not None
        flow = exchange.flow.id
        if not opened:
            self._openers.pop(flow, None)
            return
        opener = self._openers.get(flow)
        if opener is None:
            if len(self._openers) < limits.SESSIONS:
                self._openers[flow] = _Opener(without_bodies(exchange), response.packet, response.packet)
            return
        knew = isinstance(request.knows, int) and request.knows >= opener.known
        is_other = client_id_of(request) != client_id_of(opener.exchange.request)
        if session_id or is_other or not knew:  # it closes its old session, or does not know it yet
            del self._openers[flow]
            return
        opener.opened += 1
        opener.known, opener.exchange = response.packet, without_bodies(exchange)

    # -- whether it goes on

    def _progress(self, session: _Session, exchange: Exchange, body: Any, answer: Any) -> Iterable[Incident]:
        """Compare the first offsets of an answer with those of the answers before."""
        for topic in (*(body.topics or ()), *(body.forgotten_topics_data or ())):
            for partition in topic.partitions or ():
                number = partition if isinstance(partition, int) else partition.partition
                session.reached.pop((topic_key(topic), number), None)
        over: list[Incident] = []
        for topic in answer.responses or ():
            for row in topic.partitions or ():
                spans = record_spans(row.records)
                if not row.error_code and isinstance(spans, list) and spans and spans[0][2] != UNREAD:
                    over += self._reached(session, exchange, (topic_key(topic), row.partition_index), spans[0][0])
        return over

    def _reached(self, session: _Session, exchange: Exchange, key: tuple[str, int], offset: int) -> Iterable[Incident]:
        reached = session.reached.get(key)
        if reached is None or reached.offset != offset:
            if reached is not None or len(session.reached) < limits.RETRIED_PLACES:
                session.reached[key] = _Reached(offset, witness_of(exchange))
            return NOTHING
        reached.times += 1
        if reached.times < _NO_PROGRESS:
            return NOTHING
        topic = self.scene.topic(key[0])
        topic_id = key[0] if key[0] in self.scene.names.by_id else self.scene.topic_id(key[0])
        case = Case(
            FETCH_NO_PROGRESS,
            f"{client_of(exchange)} got the records of {topic}[{key[1]}] from offset {offset:,} on again and again: "
            f"{_NO_PROGRESS} answers in a row begin there since packet {reached.answered[0].response_packet}",
            before=reached.answered,
            about=(*key, offset),
            topic_id=topic_id,
            partition=key[1],
        )
        return self.collect(exchange, case)

    # -- why it refuses

    def _refused(self, exchange: Exchange, row: Rule, reason: _Reason) -> Iterable[Incident]:
        body: Any = exchange.request.body if exchange.request is not None else None
        code = _INVALID_EPOCH if row is FETCH_SESSION_EPOCH else _NOT_FOUND
        case = Case(
            row,
            f"{client_of(exchange)} sent Fetch with epoch {body.session_epoch} of session {body.session_id}, which "
            f"broker {exchange.flow.broker} refused with {ErrorCode(code).name} ({code}): {reason.facts}",
            reason.cause,
            reason.verdict,
            reason.because,
            "client",
            reason.before,
            codes=(code,),
        )
        return self.collect(exchange, case)

    def _wrong_epoch(self, key: tuple[Broker, int], exchange: Exchange, epoch: int) -> _Reason:
        session, request = self._sessions.get(key), exchange.request
        assert request is not None
        if epoch < -1:
            return _Reason("no epoch is below -1", "negative")
        last = None if session is None else session.last
        if session is None or last is None or abs(last.epoch - epoch) > _WRAPPED:
            return _Reason("its session was opened before", "unknown", "unknown", "beginning_not_seen")
        if epoch <= last.epoch:
            return _repeated(last, request, epoch)
        if epoch == next_epoch(last.epoch):
            return self._due(session, last, request)
        return self._skipped(session, last, exchange, epoch)

    def _due(self, session: _Session, last: _Used, request: Message) -> _Reason:
        """Explain the refusal of an epoch that is due, by the answers so far."""
        if session.lost is None:
            facts = f"epoch {last.epoch} was the last one that the capture shows"
            return _Reason(facts, "unknown", "unknown", "hidden_traffic", last.witness)
        lost = session.lost
        facts = f"the broker had counted the same epoch before (packet {lost.request_packet}), and its answer was lost"
        return _Reason(facts, "lost_answer", before=(*last.witness, *lost.witness))

    def _skipped(self, session: _Session, last: _Used, exchange: Exchange, epoch: int) -> _Reason:
        lost, is_over = session.lost, True
        if lost is None:
            lost, is_over = self._open_request(exchange, next_epoch(last.epoch)), False
        if lost is None or epoch != next_epoch(lost.epoch):
            facts = f"epoch {next_epoch(last.epoch)} was due after packet {last.answer_packet}, as far as it is shown"
            return _Reason(facts, "skip_ahead", before=last.witness)
        facts = f"the Fetch with epoch {lost.epoch} before (packet {lost.request_packet}) has no answer, so it was not "
        facts += "counted"
        before = (*last.witness, *lost.witness)
        if session.is_lost_in_gap and is_over:
            return _Reason(facts, "skip_after_timeout", "unknown", "gap", before)
        if not is_over:
            return _Reason(facts, "skip_after_timeout", "unknown", "unanswered", before)
        return _Reason(facts, "skip_after_timeout", "violation", None, before)

    def _open_request(self, exchange: Exchange, epoch: int) -> _Used | None:
        """Return a Fetch of the same session and host, on another connection, that has no answer so far."""
        request = exchange.request
        assert request is not None
        body: Any = request.body
        host = host_of(exchange.flow.client)
        for flow, requests in self.scene.open.items():
            for (message,) in requests.values():
                other: Any = message.body
                is_same = (
                    message.api_key == FETCH
                    and flow != exchange.flow.id
                    and host_of(message.client) == host
                    and is_whole(message)
                    and getattr(other, "session_id", 0) == body.session_id
                    and other.session_epoch == epoch
                )
                if is_same:
                    return _Used(epoch, flow, message.packet, None, witness_of(message))
        return None

    def _not_found(self, key: tuple[Broker, int]) -> _Reason:
        broker, session_id = key
        if not session_id:
            return _Reason("session id 0 is none, so no epoch is due in it", "never_opened", "violation")
        session = self._sessions.get(key)
        if session is None or session.last is None:
            facts = "the capture does not show who opened the session"
            return _Reason(facts, "unknown", "unknown", "beginning_not_seen")
        last = session.last
        if session.ended == "emptied":
            return _Reason("its last partition was taken out, which ended it", "emptied", before=last.witness)
        if session.ended is not None:
            return _Reason("the client had closed it", session.ended, before=session.ended_by)
        used = f"it was last used in packet {last.answer_packet}"
        restart = self._restarts.get(broker, -1)
        if last.answer_packet is not None and restart > last.answer_packet:
            return _Reason(
                f"{used}, and in packet {restart} the broker had ended all its connections",
                "broker_restart",
                before=last.witness,
            )
        if (opener := self._opener(broker)) is not None:
            facts = (
                f"{used}; the broker evicted it for the sessions of {client_of(opener.exchange)}, which opens one with "
                "each Fetch"
            )
            return _Reason(facts, "evicted", before=last.witness)
        return _Reason(f"{used}; nobody closed it, so the broker evicted it", "evicted", before=last.witness)

    def _opener(self, broker: Broker) -> _Opener | None:
        """Return a connection of the broker whose client opens a session with each Fetch."""
        return next(
            (
                it
                for it in self._openers.values()
                if it.opened > _OPENED_IN_ROW and self.scene.broker_of(it.exchange.flow) is broker
            ),
            None,
        )

    def _opened_each_time(self, opener: _Opener) -> Iterable[Incident]:
        """Report a client that opens a session with each Fetch, which cost another client its session."""
        exchange = opener.exchange
        case = Case(
            FETCH_SESSION_NOT_FOUND,
            f"{client_of(exchange)} opens a fetch session with each Fetch, {opener.opened:,} in a row since packet "
            f"{opener.since}, and uses none; broker {exchange.flow.broker} no longer has a session of another client",
            "opened_each_time",
            "violation",
            blame="client",
        )
        return self.collect(exchange, case)

    # -- connections

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        if isinstance(event, Gap):
            if len(self._gaps) < limits.PAIRS:
                self._gaps.add(event.flow.id)
            self._openers.pop(event.flow.id, None)  # it may have used its sessions meanwhile
            return NOTHING
        if not isinstance(event, Closed | HalfClosed):
            return NOTHING
        flow = event.flow
        if event.side is not None and event.side != flow.calling_side and flow.id in self.scene.answered:
            self._end(event, self.scene.broker_of(flow))
        if isinstance(event, Closed):
            self._gaps.discard(flow.id)
            self._openers.pop(flow.id, None)
        return NOTHING

    def _end(self, event: Closed | HalfClosed, broker: Broker) -> None:
        """Take a connection that the broker ended."""
        if len(self._ends) >= limits.BROKERS and broker not in self._ends:
            return
        now_ns = self.scene.time_ns
        ended = self._ends.setdefault(broker, {})
        ended[host_of(event.flow.client)] = now_ns
        if all(it.id == event.flow.id for it in self.scene.connections_of(broker)):
            if sum(now_ns - ended_ns < _TOGETHER_NS for ended_ns in ended.values()) > 1:
                self._restarts[broker] = event.packet
            del self._ends[broker]


def _used(exchange: Exchange, epoch: int | None = None) -> _Used:
    """Return a Fetch as the use of a session; `epoch` None: that of the request."""
    request, response = exchange.request, exchange.response
    assert request is not None
    body: Any = request.body
    return _Used(
        body.session_epoch if epoch is None else epoch,
        request.flow,
        request.packet,
        None if response is None else response.packet,
        witness_of(exchange),
    )


def _repeated(last: _Used, request: Message, epoch: int) -> _Reason:
    """Explain the refusal of an epoch that was used before."""
    cause = "replay" if epoch == last.epoch else "stale"
    facts = f"epoch {last.epoch} was answered in packet {last.answer_packet}, so epoch {next_epoch(last.epoch)} is due"
    knew = request.flow == last.flow and isinstance(request.knows, int) and request.knows >= (last.answer_packet or 0)
    if knew:
        return _Reason(facts, cause, "violation", None, last.witness)
    return _Reason(facts, cause, "unknown", "in_flight", last.witness)

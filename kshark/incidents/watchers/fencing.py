"""Transactional producers that are fenced: by which InitProducerId, of which client. Rule 155."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct, field

from kshark.analysis.facts.bases import AT_MOST, Limit
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.facts.reading import is_whole
from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.rules.rule import NOTES_TOO, Rule
from kshark.endpoints import host_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import client_id_of, seconds
from kshark.incidents.series import Case, SeriesWatcher, client_of
from kshark.incidents.watcher import NOTHING, Awaited
from kshark.model import Exchange, Message, Witness
from kshark.recent import Recent
from kshark_dissectors.enums import ApiKey, ErrorCode

#: INVALID_PRODUCER_EPOCH, PRODUCER_FENCED.
_FENCED: Final = frozenset({int(ErrorCode.INVALID_PRODUCER_EPOCH), int(ErrorCode.PRODUCER_FENCED)})
#: Two clients that take one transactional id from each other within this time run at the same time.
_TOGETHER_NS: Final = 300_000_000_000
#: InitProducerIds of one transactional id that are remembered.
_REMEMBERED: Final = 8
_MS: Final = 1_000_000

PRODUCER_FENCED: Final = Rule(
    number=155,
    code="PRODUCER_FENCED",
    text="A producer is refused because another one has taken its transactional id.",
    source="KIP-98, KIP-588; Kafka: TransactionCoordinator.handleInitProducerId, ProducerAppendInfo",
    rests_on=(AT_MOST, Limit("RETRYING")),
    blame=("client",),
    verdicts=NOTES_TOO,
    causes=("two_processes", "taken_over", "restarted", "timed_out", "unknown"),
    act="used a transactional.id at the same time as another process",
    must="Each running producer has a transactional.id of its own.",
    advice="Give each process its own transactional.id (Kafka Streams and Connect do). After a restart or a takeover "
    "the old producer is fenced on purpose: it must close. If the transaction timed out, commit sooner or raise "
    "transaction.timeout.ms.",
    weight=50,
)


class _Init(Struct, frozen=True):
    """An answered InitProducerId. `owner`: host and client id."""

    owner: tuple[str, str | None]
    name: str
    flow: int
    at: PacketTime
    timeout_ms: int
    witness: tuple[Witness, ...]


class _Producer(Struct):
    """A transactional id: its last InitProducerIds, and the last clients that were fenced, with the packets."""

    inits: deque[_Init] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    fenced: deque[tuple[tuple[str, str | None], int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class Fencing(SeriesWatcher):
    """Follow the transactional ids of each cluster."""

    rows = (PRODUCER_FENCED,)
    apis = frozenset({ApiKey.INIT_PRODUCER_ID})
    judges = frozenset(
        {
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.PRODUCE,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.END_TXN,
        }
    )
    refusals = True

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._producers: Recent[tuple[int, str], _Producer] = Recent(_Producer, "RETRYING")

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        request, response = exchange.request, exchange.response
        if request is None or not is_whole(request) or response is None or not is_whole(response):
            return NOTHING
        asked: Any = request.body
        answer: Any = response.body
        if not asked.transactional_id or answer.error_code:
            return NOTHING
        key = self.scene.cluster_of(exchange.flow), asked.transactional_id
        self._producers.of(key).inits.append(
            _Init(
                _owner(exchange, request),
                client_of(exchange),
                exchange.flow.id,
                self.scene.now,
                asked.transaction_timeout_ms,
                witness_of(exchange),
            )
        )
        return NOTHING

    def refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> Iterable[Incident]:
        request = exchange.request
        fenced = tuple(placed.code for placed in codes if placed.code in _FENCED)
        if not fenced or request is None or not is_whole(request):
            return NOTHING
        over: list[Incident] = []
        for transactional_id in dict.fromkeys(_ids_of(request.body)):
            over += self.collect(exchange, self._case(exchange, request, transactional_id, fenced))
            producer = self._producers.get((self.scene.cluster_of(exchange.flow), transactional_id or ""))
            if producer is not None:
                producer.fenced.append((_owner(exchange, request), self.scene.packet))
            fenced = ()
        return over

    def _case(self, exchange: Exchange, request: Message, transactional_id: str | None, codes: tuple[int, ...]) -> Case:
        named = f" with transactional id {transactional_id}" if transactional_id else ""
        errors = " and ".join(f"{ErrorCode(code).name} ({code})" for code in dict.fromkeys(codes))
        who = f"broker {exchange.flow.broker} refused {request.api} of {client_of(exchange)}{named}"
        facts, case = self._reason(exchange, request, transactional_id)
        return Case(
            PRODUCER_FENCED,
            f"{who}, {errors}: {facts}",
            case.cause,
            case.verdict,
            case.because,
            "client",
            case.before,
            (transactional_id, request.api),
            codes,
        )

    def _reason(self, exchange: Exchange, request: Message, transactional_id: str | None) -> tuple[str, Case]:
        """Return why a producer is fenced, as facts and as a case without them."""
        key = self.scene.cluster_of(exchange.flow), transactional_id or ""
        producer = self._producers.get(key)
        if producer is None:
            facts = "the capture does not show the InitProducerId that did it"
            return facts, Case(PRODUCER_FENCED, "", "unknown", "unknown", "beginning_not_seen")
        inits = producer.inits
        last, owner = inits[-1], _owner(exchange, request)
        if (others := _alternating(producer, owner)) is not None:
            facts = (
                f"{others[0].name} and {others[1].name} take it from each other, with InitProducerId in packets "
                f"{others[0].at.packet}, {others[1].at.packet} and {others[2].at.packet}, and each sent on"
            )
            before = tuple(witness for init in others for witness in init.witness)
            return facts, Case(PRODUCER_FENCED, "", "two_processes", "violation", None, "client", before)
        if last.owner != owner:
            facts = f"{last.name} has taken it over with InitProducerId (packet {last.at.packet})"
            return facts, Case(PRODUCER_FENCED, "", "taken_over", before=last.witness)
        if last.flow != request.flow and len(inits) > 1:
            facts = f"the same client had started anew with InitProducerId (packet {last.at.packet})"
            return facts, Case(PRODUCER_FENCED, "", "restarted", before=last.witness)
        lasted_ns = self.scene.time_ns - last.at.time_ns
        if last.timeout_ms > 0 and lasted_ns > last.timeout_ms * _MS:
            facts = (
                f"its last InitProducerId was {seconds(lasted_ns)} before (packet {last.at.packet}), and its "
                f"transaction timeout is {seconds(last.timeout_ms * _MS)}: the coordinator may have ended a "
                "transaction that was open for longer"
            )
            return facts, Case(PRODUCER_FENCED, "", "timed_out", before=last.witness)
        facts = f"its own InitProducerId (packet {last.at.packet}) is the last one that the capture shows"
        return facts, Case(PRODUCER_FENCED, "", "unknown", "unknown", "hidden_traffic", before=last.witness)


def _alternating(producer: _Producer, owner: tuple[str, str | None]) -> tuple[_Init, _Init, _Init] | None:
    """Return the last three InitProducerIds if they are of one client, another one, and the first one again, and each
    was fenced by the next: the first one before it came again, the other one now."""
    if len(producer.inits) < 3:
        return None
    first, other, again = [*producer.inits][-3:]
    is_alternating = first.owner == again.owner and other.owner == owner and first.owner[0] != other.owner[0]
    is_together = again.at.time_ns - first.at.time_ns <= _TOGETHER_NS and any(
        of == first.owner and other.at.packet < packet < again.at.packet for of, packet in producer.fenced
    )
    return (first, other, again) if is_alternating and is_together else None


def _owner(exchange: Exchange, request: Message) -> tuple[str, str | None]:
    """Return the client of an exchange: its host and its client id."""
    return host_of(exchange.flow.client), client_id_of(request)


def _ids_of(body: Any) -> Iterator[str | None]:
    """Yield the transactional ids of a request; None if it has none."""
    transactions = getattr(body, "transactions", UNSET)
    if transactions is not UNSET and transactions:
        yield from (it.transactional_id for it in transactions)
        return
    names = ("transactional_id", "v3_and_below_transactional_id")
    yield next((it for it in (getattr(body, name, UNSET) for name in names) if it not in (UNSET, None, "")), None)

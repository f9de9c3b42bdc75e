"""Steps: the requests of a share session in the order in which they were complete, each with its answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any, Final

from msgspec import Struct

from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.known import Known, known_if
from kshark.analysis.facts.releases import agreed
from kshark.api_keys import SHARE_FETCH
from kshark.model import UNKNOWN_PACKET, Witness
from kshark.records import TransactionBatch

#: Member epoch of a heartbeat that leaves the group (KIP-932).
LEAVING: Final = -1

#: Brokers accept member ids of at most this many characters.
LONGEST_MEMBER_ID: Final = 36
#: Highest share-session epoch; the next one is 1 (Kafka: ShareRequestMetadata.nextEpoch).
LAST_EPOCH: Final = 2_147_483_647

_UNKNOWN_SERVER_ERROR: Final = -1
_UUID: Final = re.compile(r"[A-Za-z0-9_-]{22}")

#: The types of a batch that only renews locks.
_RENEW: Final = [4]

Partition = tuple[str, int]
#: First and last offset, and the content of the answer there (kshark.records.spans).
Span = Sequence[Any]
#: Partition, first and last offset, delivery count.
Acquired = tuple[Partition, int, int, int]


class _Nothing(dict[Any, Any]):
    """A dictionary that stays empty."""

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("the shared dictionary stays empty")

    def __reduce__(self) -> str:
        return "NOTHING"


#: The shared empty dictionary. An own empty dictionary would cost 64 bytes for each object.
NOTHING: Final = _Nothing()


def has_uuid(member_id: str | None) -> bool:
    """True if the id is a uuid in Kafka's base64 form, the only one in brokers 4.0 and 4.1. Kafka: Uuid.fromString."""
    return member_id is not None and _UUID.fullmatch(member_id) is not None


def next_epoch(epoch: int) -> int:
    """Return the epoch that follows an accepted one."""
    return 1 if epoch == LAST_EPOCH else epoch + 1


class EpochKind(IntEnum):
    """Kinds of epochs (KIP-932).

    A share session is opened, used or closed; a member joins, stays or leaves.
    """

    INITIAL = 0
    SUBSEQUENT = 1
    FINAL = -1
    NEGATIVE = -2

    #: Every step is looked up in tables by these members, and Enum's own hash is written in Python.
    __hash__ = int.__hash__


# Names for the members, here and below: the lookup of an enumeration's member takes ten times as long.
INITIAL, SUBSEQUENT, FINAL, NEGATIVE = EpochKind


class Reply(StrEnum):
    """Answers, by their effect on the session. Kafka: KafkaApis and SharePartitionManager.

    FAILED_LATER: the session accepted the request and counted its epoch, then a later stage failed (an unknown topic
    id, for example).
    FAILED_REOPEN: an epoch 0 lists a partition twice. The broker removes the old session before it fails.
    """

    ACCEPTED = "was accepted"
    SESSION_NOT_FOUND = "was refused with SHARE_SESSION_NOT_FOUND"
    INVALID_EPOCH = "was refused with INVALID_SHARE_SESSION_EPOCH"
    LIMIT_REACHED = "was refused with SHARE_SESSION_LIMIT_REACHED"
    REJECTED_EARLY = "was rejected before its epoch was counted"
    FAILED_LATER = "was counted by the broker, then failed"
    FAILED_REOPEN = "closed the old session, then failed"
    UNCLEAR = "was answered with an error"
    UNANSWERED = "was not answered"

    __hash__ = str.__hash__


(
    ACCEPTED,
    SESSION_NOT_FOUND,
    INVALID_EPOCH,
    LIMIT_REACHED,
    REJECTED_EARLY,
    FAILED_LATER,
    FAILED_REOPEN,
    UNCLEAR,
    UNANSWERED,
) = Reply

#: By top-level error; None: no answer, or an unreadable one. The broker checks 30, 35 and 42 before it looks up the
#: session (group authorization, feature off, invalid request).
_REPLIES: Final = {
    None: UNANSWERED,
    0: ACCEPTED,
    122: SESSION_NOT_FOUND,
    123: INVALID_EPOCH,
    133: LIMIT_REACHED,
    30: REJECTED_EARLY,
    35: REJECTED_EARLY,
    42: REJECTED_EARLY,
}
#: Answers that a finding must explain.
REFUSALS: Final = frozenset({SESSION_NOT_FOUND, INVALID_EPOCH})
#: Answers after which the client must send epoch 0.
NEED_A_NEW_SESSION: Final = frozenset({SESSION_NOT_FOUND, INVALID_EPOCH, LIMIT_REACHED})


def reply_of(error: int | None) -> Reply:
    """Return the effect of a top-level error on the session. None: no answer, or an unreadable one."""
    return _REPLIES.get(error, UNCLEAR)


class AcknowledgementBatch(Struct, eq=False, gc=False):
    """Offsets that a request acknowledges.

    `types`: one type for all offsets, or one for each (kshark.analysis.states.tables.in_flight.AcknowledgementType).
    """

    first: int
    last: int
    types: Sequence[int]

    @property
    def renews(self) -> bool:
        """True if it only renews the locks of the offsets (KIP-1222)."""
        return self.types == _RENEW


class Listed(Struct, eq=False, gc=False):
    """A partition in a request, with the batches that it acknowledges."""

    partition: Partition
    acknowledged: Sequence[AcknowledgementBatch]


class Leader(Struct, frozen=True):
    """The leader of a partition, from another broker's answer: node id, address and leader epoch."""

    node_id: int
    address: str
    epoch: int


class Answer(Struct, eq=False, gc=False):
    """The answer to a request.

    `acquired`: the ranges that it delivers: partition, first and last offset, delivery count.
    `lock_ns`: the lock duration; None where the answer does not contain it.
    `acknowledged`: the error code of the acknowledgements, by partition.
    `failed`: the error code of partitions that could not be fetched.
    `leaders`: the leaders of the partitions that another broker leads.
    `throttled`: the answer names no partition because of a quota, even if records were acquired.
    `spans`: for a partition with records in the answer, the offsets that have a record, where they are known.
    `transactions`: for a partition, the batches of transactions in the answer, with their markers.
    `knows`: the last packet of the client that the broker had certainly received when it sent the answer.
    """

    packet: int
    time_ns: int
    error: int | None
    doubt: str | None
    acquired: Sequence[Acquired] = ()
    lock_ns: int | None = None
    acknowledged: Mapping[Partition, int] = NOTHING
    failed: Mapping[Partition, int] = NOTHING
    leaders: Mapping[Partition, Leader] = NOTHING
    throttled: bool = False
    spans: Mapping[Partition, Sequence[Span]] = NOTHING
    knows: int = UNKNOWN_PACKET
    transactions: Mapping[Partition, Sequence[TransactionBatch]] = NOTHING


class Call(Struct, eq=False):
    """A request with its answer, if it was seen.

    `settled`: no other answer can come.
    `end`, `end_ns`: the last packet of the exchange, and its time. Derived fields are computed when a call is created,
    and not again when it is read from tables.
    """

    connection: ConnectionFacts
    api_key: int
    api: str
    version: int
    packet: int
    time_ns: int
    correlation_id: int
    client_id: str | None
    group_id: str | None
    member_id: str | None
    epoch: int
    doubt: str | None = None
    answer: Answer | None = None
    settled: bool = False
    end: int = 0
    end_ns: int = 0
    #: Why the request or the answer is unreliable. "cut" comes first, because a cut message lacks fields.
    any_doubt: str | None = None
    #: The last packet of the broker that the client had certainly received when it sent the request (Message.knows).
    knows: int = UNKNOWN_PACKET
    #: The time of the client's next request that shows that it has received the answer; None: not seen.
    received_ns: int | None = None

    def __post_init__(self) -> None:
        if self.end:
            return
        last = self.answer or self
        self.end, self.end_ns = last.packet, last.time_ns
        answered = None if self.answer is None else self.answer.doubt
        self.any_doubt = answered if answered == "cut" else self.doubt or answered

    @property
    def witness(self) -> Witness:
        return Witness(
            self.connection.flow.id, self.correlation_id, self.packet, self.answer.packet if self.answer else None
        )

    @property
    def sent(self) -> PacketTime:
        """The packet and the time of the request."""
        return PacketTime(self.packet, self.time_ns)

    @property
    def ended(self) -> PacketTime:
        """The packet and the time of the answer, or else of the request."""
        return PacketTime(self.end, self.end_ns)

    @property
    def answered(self) -> Known:
        """The fact that the broker answered."""
        return known_if(self.answer is not None, "unanswered")

    @property
    def packets(self) -> str:
        return f"packets {self.packet}, {self.answer.packet}" if self.answer else f"packet {self.packet}"

    @property
    def here(self) -> str:
        """Return `ShareFetch #17`: the API and the correlation id."""
        return f"{self.api} #{self.correlation_id}"

    def note_received(self, later: Call) -> None:
        """Note a later request of the client on the same connection, which may show that it has the answer."""
        if self.received_ns is None and 0 < self.end <= later.knows:
            self.received_ns = later.time_ns

    def on(self, other: Call) -> str:
        """Return ` on 10.0.0.1:50001` if the other call was on another connection."""
        return "" if self.connection is other.connection else f" on {self.connection.name}"


class Sighting(Call, eq=False, kw_only=True):
    """Bytes of a connection that are no exchange, or an answer without a request.

    `api`: their description. `seen`: their position.
    """

    seen: Witness

    @property
    def witness(self) -> Witness:
        return self.seen

    @property
    def here(self) -> str:
        return self.api


class ShareStep(Call, eq=False):
    """A ShareFetch or ShareAcknowledge request."""

    listed: Sequence[Listed] = ()
    #: True if it acknowledges records; it still says so when `listed` was dropped.
    acknowledges: bool = False
    forgotten: Sequence[Partition] = ()
    #: The request declares that it renews locks (KIP-1222).
    is_renewal: bool = False
    #: The number of records that it asks for; the strict limit, where that number is one (KIP-1206); its batch size is
    #: below one record.
    max_records: int | None = None
    most_records: int | None = None
    wants_no_batch: bool = False
    #: The packet at which the broker could process it: its own packet, or a later one if earlier requests of its
    #: connection were still open.
    arrival: int = 0
    kind: EpochKind = SUBSEQUENT
    reply: Reply = UNANSWERED
    is_fetch: bool = False

    def __post_init__(self) -> None:
        if self.end:
            return
        self.kind = SUBSEQUENT if self.epoch > 0 else EpochKind(max(self.epoch, -2))
        self.is_fetch = self.api_key == SHARE_FETCH
        self.arrival, self.any_doubt = self.packet, self.doubt
        self.end, self.end_ns = self.packet, self.time_ns
        if self.answer is not None:
            self.settle(self.answer)

    def settle(self, answer: Answer | None) -> None:
        """Note the answer, or that none will come."""
        self.settled = True
        if answer is not None:
            self.answer, self.end, self.end_ns = answer, answer.packet, answer.time_ns
            self.any_doubt = answer.doubt if answer.doubt == "cut" else self.doubt or answer.doubt
            self.reply = _REPLIES.get(answer.error, UNCLEAR)
            if answer.error == _UNKNOWN_SERVER_ERROR:
                self.reply = self._failed()

    def _failed(self) -> Reply:
        """Return the meaning of UNKNOWN_SERVER_ERROR.

        Brokers from 4.1 on send it after they counted the epoch, unless they cannot read the member id.
        """
        if self.kind is FINAL or self.kind is NEGATIVE or not self._is_read:
            return UNCLEAR
        if self.opens:
            return FAILED_REOPEN if self.duplicates else FAILED_LATER
        return FAILED_LATER if self.kind is SUBSEQUENT else UNCLEAR

    @property
    def _is_read(self) -> bool:
        """True if the broker can certainly read the member id."""
        broker = self.connection.broker
        any_text = broker is not None and agreed(broker.releases, "reads_uuids") is False
        return has_uuid(self.member_id) or (any_text and self.is_named)

    def lighten(self) -> None:
        """Drop the fields that only the judgement of this step needs."""
        self.listed = self.forgotten = ()
        if self.answer is not None:
            self.answer.acquired = ()

    @property
    def opens(self) -> bool:
        """True if it asks for a new session."""
        return self.kind is INITIAL and self.is_fetch

    @property
    def is_named(self) -> bool:
        """True if brokers accept its member id. Kafka: KafkaApis.isMemberIdValid."""
        return self.member_id is not None and 0 < len(self.member_id) <= LONGEST_MEMBER_ID

    @property
    def is_counted(self) -> bool:
        """True if the broker counted its epoch: it was accepted, or it failed after that."""
        return self.reply is ACCEPTED or self.reply is FAILED_LATER

    @property
    def refused(self) -> bool:
        """True if the broker refused it with 122 or 123. A finding must explain the refusal."""
        return self.reply in REFUSALS

    @property
    def is_trouble(self) -> bool:
        """True for an opening or a refusal. A healthy session has few of them."""
        return self.kind is INITIAL or self.refused

    @property
    def asked_for(self) -> list[Partition]:
        """Partitions listed for a fetch: without acknowledgements, and not in the forgotten partitions."""
        return [
            listed.partition
            for listed in self.listed
            if not listed.acknowledged and listed.partition not in self.forgotten
        ]

    @property
    def duplicates(self) -> list[Partition]:
        """Partitions that are listed more than once."""
        if len(self.listed) < 2:
            return []
        seen: set[Partition] = set()
        again = []
        for listed in self.listed:
            if listed.partition in seen:
                again.append(listed.partition)
            seen.add(listed.partition)
        return again

    @property
    def story(self) -> str:
        """Return `ShareFetch #17 (epoch 4) was accepted (packets 88, 89)`."""
        return f"{self.here} (epoch {self.epoch}) {self.reply.value} ({self.packets})"

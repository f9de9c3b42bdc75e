"""Steps: the requests of a share session in the order in which they were complete, each with its answer as an
attribute."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple

from msgspec import Struct

from kshark.analysis.facts.connections import Connection
from kshark.analysis.facts.releases import agreed
from kshark.api_keys import SHARE_FETCH
from kshark.model import Witness

#: Member epoch of a heartbeat that leaves the group (KIP-932).
LEAVING: Final = -1

#: Characters of a member id that brokers take.
LONGEST_MEMBER_ID: Final = 36
#: Highest share-session epoch; the one after it is 1 (Kafka: ShareRequestMetadata.nextEpoch).
LAST_EPOCH: Final = 2_147_483_647

_UNKNOWN_SERVER_ERROR: Final = -1
_UUID: Final = re.compile(r"[A-Za-z0-9_-]{22}")

#: The types of a batch that only renews locks.
_RENEW: Final = [4]

Partition = tuple[str, int]
#: First and last offset, and what an answer has there (kshark.records.spans).
Span = Sequence[Any]
#: Partition, first and last offset, delivery count.
Acquired = tuple[Partition, int, int, int]


class _Nothing(dict[Any, Any]):
    """What stays empty."""

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("it is not one's own")

    def __reduce__(self) -> str:
        return "NOTHING"


#: The one dictionary of all who have nothing to say or to remember; of their own it would be 64 bytes each.
NOTHING: Final = _Nothing()


def has_uuid(member_id: str | None) -> bool:
    """Whether the id is a uuid in Kafka's base64 form, the only one that 4.0 and 4.1 take. Kafka: Uuid.fromString."""
    return member_id is not None and _UUID.fullmatch(member_id) is not None


def next_epoch(epoch: int) -> int:
    """The epoch due after an accepted one."""
    return 1 if epoch == LAST_EPOCH else epoch + 1


class Kind(IntEnum):
    """Epochs by what they ask for (KIP-932): of a share session to be opened, used or closed; of a member to join, stay
    or leave."""

    INITIAL = 0
    SUBSEQUENT = 1
    FINAL = -1
    NEGATIVE = -2

    #: Tables are asked for members with every step; Enum's own hash is written in Python.
    __hash__ = int.__hash__


# Looked up once, here and below: a member of an enumeration takes ten times as long to find as a name.
INITIAL, SUBSEQUENT, FINAL, NEGATIVE = Kind


class Reply(StrEnum):
    """Answers by what they say about the session. Kafka: KafkaApis and SharePartitionManager.

    FAILED_LATER: the session took the request, and something behind it failed (an unknown topic id, say): it is counted
    all the same. FAILED_REOPEN: an epoch 0 that lists a partition twice takes the old session away before it trips over
    that."""

    ACCEPTED = "was accepted"
    SESSION_NOT_FOUND = "was refused with SHARE_SESSION_NOT_FOUND"
    INVALID_EPOCH = "was refused with INVALID_SHARE_SESSION_EPOCH"
    LIMIT_REACHED = "was refused with SHARE_SESSION_LIMIT_REACHED"
    REJECTED_EARLY = "was refused before it reached the session"
    FAILED_LATER = "was counted and failed behind the session"
    FAILED_REOPEN = "failed half-way"
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

#: By top-level error; None: no answer, or none that could be read. 30, 35 and 42 come before the session is looked at
#: (group authorization, feature off, invalid request).
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
#: Answers of which one finding has to say why they came.
REFUSALS: Final = frozenset({SESSION_NOT_FOUND, INVALID_EPOCH})
#: Answers after which only an epoch 0 goes on.
NEED_A_NEW_SESSION: Final = frozenset({SESSION_NOT_FOUND, INVALID_EPOCH, LIMIT_REACHED})


def reply_of(error: int | None) -> Reply:
    """What a top-level error says; None where there is no answer, or none that could be read."""
    return _REPLIES.get(error, UNCLEAR)


class Batch(Struct, eq=False, gc=False):
    """Offsets that a request acknowledges; `types`: one for all of them, or one each
    (kshark.analysis.states.tables.in_flight.Type)."""

    first: int
    last: int
    types: Sequence[int]

    @property
    def renews(self) -> bool:
        """Whether it only renews their locks (KIP-1222)."""
        return self.types == _RENEW


class Listed(Struct, eq=False, gc=False):
    """A partition in a request, with what it acknowledges there."""

    partition: Partition
    acknowledged: Sequence[Batch]


class Leader(NamedTuple):
    """Who leads a partition, as an answer of another broker tells: its node id and address, and since which leader
    epoch."""

    node_id: int
    address: str
    epoch: int


class Answer(Struct, eq=False, gc=False):
    """The response.

    `acquired` are the ranges that it hands out: partition, first and last offset, delivery count. `lock_ns` is how long
    they are locked, None where it does not say. `acknowledged` has what became of the acknowledgements of each
    partition that it names, an error code;
    `failed` the partitions that could not be fetched from, with theirs, and `leaders` the leaders of those that another
    broker leads.
    `spans` tells of partitions whose records it holds which offsets have one, where that is known.
    `throttled`: for a quota it names none at all, whatever was acquired.
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


class Call(Struct, eq=False):
    """A request, with its answer once it is seen; `settled` when none will come any more.

    `end` and `end_ns`: the last packet of the exchange, and its time. What follows from the rest is found out when a
    call is made, and not again where it is read back."""

    connection: Connection
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
    #: Why the request, or else its answer, cannot be relied on; that one is cut, and lacks fields, before all else.
    any_doubt: str | None = None

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
    def packets(self) -> str:
        return f"packets {self.packet}, {self.answer.packet}" if self.answer else f"packet {self.packet}"

    @property
    def here(self) -> str:
        """`exchange 17 (ShareFetch)`."""
        return f"exchange {self.correlation_id} ({self.api})"

    def on(self, other: Call) -> str:
        """` on 10.0.0.1:50001`, where the other one was on another connection."""
        return "" if self.connection is other.connection else f" on {self.connection.client}"


class Sighting(Call, eq=False, kw_only=True):
    """Bytes of a connection that are no exchange, or an answer to nothing: `api` says what they are, `seen` where."""

    seen: Witness

    @property
    def witness(self) -> Witness:
        return self.seen

    @property
    def here(self) -> str:
        return self.api


class Step(Call, eq=False):
    """A ShareFetch or ShareAcknowledge."""

    listed: Sequence[Listed] = ()
    forgotten: Sequence[Partition] = ()
    #: It says that it renews locks (KIP-1222).
    is_renewal: bool = False
    #: How many records it asks for; how many it takes, where that is a strict limit (KIP-1206); it wants batches of
    #: less than one record.
    max_records: int | None = None
    most_records: int | None = None
    wants_no_batch: bool = False
    #: The packet with which it was the broker's turn to take it: its own, or later where others of its connection were
    #: before it.
    arrival: int = 0
    kind: Kind = SUBSEQUENT
    reply: Reply = UNANSWERED
    is_fetch: bool = False

    def __post_init__(self) -> None:
        if self.end:
            return
        self.kind = SUBSEQUENT if self.epoch > 0 else Kind(max(self.epoch, -2))
        self.is_fetch = self.api_key == SHARE_FETCH
        self.arrival, self.any_doubt = self.packet, self.doubt
        self.end, self.end_ns = self.packet, self.time_ns
        if self.answer is not None:
            self.settle(self.answer)

    def settle(self, answer: Answer | None) -> None:
        """The answer is there, or none will come."""
        self.settled = True
        if answer is not None:
            self.answer, self.end, self.end_ns = answer, answer.packet, answer.time_ns
            self.any_doubt = answer.doubt if answer.doubt == "cut" else self.doubt or answer.doubt
            self.reply = _REPLIES.get(answer.error, UNCLEAR)
            if answer.error == _UNKNOWN_SERVER_ERROR:
                self.reply = self._failed()

    def _failed(self) -> Reply:
        """What UNKNOWN_SERVER_ERROR says: brokers from 4.1 on give it behind the session, but for ids of members that
        they cannot read."""
        if self.kind is FINAL or self.kind is NEGATIVE or not self._is_read:
            return UNCLEAR
        if self.opens:
            return FAILED_REOPEN if self.duplicates else FAILED_LATER
        return FAILED_LATER if self.kind is SUBSEQUENT else UNCLEAR

    @property
    def _is_read(self) -> bool:
        """Whether the broker surely can read the member id."""
        broker = self.connection.broker
        any_text = broker is not None and agreed(broker.releases, "reads_uuids") is False
        return has_uuid(self.member_id) or (any_text and self.is_named)

    def lighten(self) -> None:
        """Lets go of what only the step's own turn asks for."""
        self.listed = self.forgotten = ()
        if self.answer is not None:
            self.answer.acquired = ()

    @property
    def opens(self) -> bool:
        """Whether it asks for a new session."""
        return self.kind is INITIAL and self.is_fetch

    @property
    def is_named(self) -> bool:
        """Whether its member id is one that a broker takes. Kafka: KafkaApis.isMemberIdValid."""
        return self.member_id is not None and 0 < len(self.member_id) <= LONGEST_MEMBER_ID

    @property
    def is_counted(self) -> bool:
        """Whether the session went on with it: accepted, or failed behind the session."""
        return self.reply is ACCEPTED or self.reply is FAILED_LATER

    @property
    def refused(self) -> bool:
        """With 122 or 123: one finding has to explain it."""
        return self.reply in REFUSALS

    @property
    def is_trouble(self) -> bool:
        """An opening or a refusal: few of them in a healthy session's life."""
        return self.kind is INITIAL or self.refused

    @property
    def acknowledges(self) -> bool:
        return any(listed.acknowledged for listed in self.listed)

    @property
    def asked_for(self) -> list[Partition]:
        """Partitions listed to fetch from them: nothing of them is acknowledged, and they are not forgotten at once."""
        return [one.partition for one in self.listed if not one.acknowledged and one.partition not in self.forgotten]

    @property
    def duplicates(self) -> list[Partition]:
        """Partitions listed more than once."""
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
        """`exchange 17 (ShareFetch) used epoch 4 and was accepted (packets 88, 89)`."""
        return f"{self.here} used epoch {self.epoch} and {self.reply.value} ({self.packets})"

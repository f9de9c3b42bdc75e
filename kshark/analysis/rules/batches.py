"""Rules 48 to 53: malformed acknowledgement batches. Brokers refuse the partition before they look at its records."""

from __future__ import annotations

from typing import Final, get_args

from kshark.analysis.facts.argument import Argument
from kshark.analysis.rules.causes import CAUSES
from kshark.analysis.rules.refusals import offsets_text, refusal
from kshark.analysis.rules.rule import EXPLAINS, Check, Rule
from kshark.analysis.rules.triggers import ALWAYS, RENEWS, Trigger
from kshark.analysis.states.partition.situations import Acknowledging, Fault
from kshark.analysis.states.tables import IN_FLIGHT

_INVALID_REQUEST: Final = 42
_INVALID_RECORD_STATE: Final = 121
_SOURCE: Final = "Kafka: KafkaApis.validateAcknowledgementBatches"


def _malformed(cause: Fault, trigger: Trigger = ALWAYS) -> Check:
    def look(situation: Acknowledging) -> Argument | None:
        if situation.error != _INVALID_REQUEST:
            return None
        fault = situation.fault
        if fault is None or fault[0] != cause:
            return None
        batch = fault[1]
        return refusal(
            situation,
            f"the batch with {offsets_text(batch.first, batch.last)} is invalid: {CAUSES[cause]}",
            cause,
            (batch.first, batch.last),
        )

    look.__name__ = f"is_{cause}"
    return Check(look, trigger=trigger, order=10 + get_args(Fault).index(cause), about=Acknowledging)


def touches(situation: Acknowledging) -> Argument | None:
    """Report batches that share one offset: the broker finds the offset acknowledged when it reads the second batch."""
    if situation.error != _INVALID_RECORD_STATE:
        return None
    ends = [batch.last for batch in situation.batches]
    pairs = zip(situation.batches[1:], ends, strict=False)
    second = next((batch for batch, end in pairs if batch.first == end), None)
    if second is None:
        return None
    return refusal(situation, f"offset {second.first} is in two batches", "overlap", (second.first, second.first))


ROWS: Final = (
    Rule(
        number=48,
        code="ACK_RANGE_INVERTED",
        text="The last offset of an acknowledgement batch is below its first.",
        act="sent an acknowledgement batch whose last offset is below the first",
        weight=50,
        must="The last offset of a batch is its first offset or higher.",
        advice="Do not send batches for empty ranges.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 3-1 → 0, t[0] 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 1-3 → 0",
        source=_SOURCE,
        causes=("inverted",),
        verdicts=EXPLAINS,
        machine=IN_FLIGHT,
        checks=(_malformed("inverted"),),
    ),
    Rule(
        number=49,
        code="ACK_BATCHES_OVERLAP",
        text="Acknowledgement batches overlap, or are not sorted by offset.",
        act="sent acknowledgement batches that overlap or are not sorted",
        weight=50,
        must="The batches of a partition are sorted by offset and do not overlap.",
        advice="Sort and merge the offsets before you build the batches.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-3 2-5 → 0, t[0] 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-3 4-5 → 0",
        source=_SOURCE,
        tickets=("confluentinc/librdkafka#5393",),
        causes=("overlap",),
        verdicts=EXPLAINS,
        machine=IN_FLIGHT,
        checks=(_malformed("overlap"), Check(touches, order=20, about=Acknowledging)),
    ),
    Rule(
        number=50,
        code="ACK_TYPES_EMPTY",
        text="An acknowledgement batch has no type.",
        act="sent an acknowledgement batch without a type",
        weight=50,
        must="Each batch has a type.",
        advice="Fill acknowledge_types: 1 accept, 2 release, 3 reject, 0 where there is no record.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, types none for 0-1 → 0, t[0] 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, types 1 for 0-1 → 0",
        source=_SOURCE,
        causes=("no_types",),
        verdicts=EXPLAINS,
        machine=IN_FLIGHT,
        checks=(_malformed("no_types"),),
    ),
    Rule(
        number=51,
        code="ACK_TYPES_COUNT",
        text="An acknowledgement batch has neither one type nor one type per offset.",
        act="sent an acknowledgement batch with neither one type nor one for each offset",
        weight=50,
        must="A batch has one type for all its offsets, or one type per offset.",
        advice="Count all offsets of the range, gaps (type 0) included.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, types 1 3 for 0-3 → 0, t[0] 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, types 1 1 3 3 for 0-3 → 0",
        source=_SOURCE,
        causes=("types_count",),
        verdicts=EXPLAINS,
        machine=IN_FLIGHT,
        checks=(_malformed("types_count"),),
    ),
    Rule(
        number=52,
        code="ACK_TYPE_UNKNOWN",
        text="The request's version does not have this acknowledgement type.",
        act="sent an acknowledgement type that the request's version does not have",
        weight=50,
        must="The types are 0 to 3, and 4 (renew) since version 2.",
        advice="Use only the types of the version that you send. A broker that offers version 1 cannot renew locks.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, types 5 for 0-4 → 0, t[0] 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, types 3 for 0-4 → 0",
        source=_SOURCE,
        causes=("type_unknown",),
        verdicts=EXPLAINS,
        machine=IN_FLIGHT,
        checks=(_malformed("type_unknown"),),
    ),
    Rule(
        number=53,
        code="RENEW_WITHOUT_FLAG",
        text="A request renews locks without is_renew_ack.",
        act="renewed locks without is_renew_ack",
        weight=45,
        must="A request that renews locks sets is_renew_ack.",
        advice="Set is_renew_ack in each request with type 4. A ShareFetch with is_renew_ack must set its limits to 0.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, types 4 for 0-4 → 0, t[0] 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, renew 0-4 → 0",
        provoked_by="Renew a lock: KafkaShareConsumer with share.acknowledgement.mode=explicit and "
        "AcknowledgeType.RENEW (Kafka 4.2).",
        source="KIP-1222",
        causes=("renew_without_flag",),
        verdicts=EXPLAINS,
        machine=IN_FLIGHT,
        checks=(_malformed("renew_without_flag", RENEWS),),
    ),
)

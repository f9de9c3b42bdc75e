"""Record batches whose header does not match their content. Rules 124 to 128."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import Argument
from kshark.analysis.rules.byte_fault import ByteFault
from kshark.analysis.rules.rule import Check, Rule
from kshark.api_keys import PRODUCE

#: Since this version a Produce request carries one batch of magic 2 for each partition. Kafka:
#: ProduceRequest.validateRecords; KIP-98.
MAGIC_2_ONLY: Final = 3


def _is_new_produce(odd: ByteFault) -> bool:
    return odd.call.api_key == PRODUCE and odd.sender == "client" and odd.call.version >= MAGIC_2_ONLY


def legacy(odd: ByteFault) -> Argument | None:
    """Older Produce requests may carry old formats, and brokers return the stored format."""
    return odd.argument() if _is_new_produce(odd) else None


def damaged(odd: ByteFault) -> Argument | None:
    """A batch read as legacy in a version that has no legacy batches has no meaningful checksum."""
    return None if "LEGACY_MAGIC" in odd.codes and _is_new_produce(odd) else odd.argument()


ROWS: Final = (
    Rule(
        number=124,
        code="BATCH_CRC",
        text="The checksum of a record batch does not match its bytes. Brokers refuse it with error 2 or 87, share "
        "consumers reject it.",
        source="Kafka: DefaultRecordBatch",
        blame=("client", "broker"),
        weird=("BATCH_CRC",),
        read="batches",
        refused_with=(2, 87),
        checks=(Check(damaged),),
        sentence="a checksum does not match",
        act="sent a record batch with a wrong checksum",
        weight=90,
        must="A batch's checksum is the CRC-32C of its bytes, from the attributes to the end (magic 2).",
        advice="Compute the checksum last, over the bytes that are sent. If a broker delivers such a batch, look for "
        "damaged segments on its disk.",
        wrong="batch of 2 records, checksum 0",
        right="batch of 2 records, their checksum",
    ),
    Rule(
        number=125,
        code="BATCH_COUNT_MISMATCH",
        text="A record batch holds another number of records than it announces. Brokers refuse it with error 87.",
        source="Kafka: DefaultRecordBatch, LogValidator",
        blame=("client", "broker"),
        weird=("BATCH_COUNT_MISMATCH",),
        read="counted",
        refused_with=(87,),
        checks=(Check(ByteFault.argument),),
        sentence="the batch does not hold the number of records that it announces",
        act="sent a record batch with another number of records than announced",
        weight=85,
        must="A batch holds as many records as it announces, and a producer's batch has an offset for each.",
        advice="Set the count and the last offset delta from the records in the batch.",
        wrong="count 3, records with offset deltas 0 1",
        right="count 2, records with offset deltas 0 1",
    ),
    Rule(
        number=126,
        code="BATCH_OFFSETS",
        text="Offsets in a record batch decrease, or exceed the batch's last offset.",
        provoked_by="Check with --records, and let the client produce compressed batches of several records.",
        source="Kafka: DefaultRecordBatch, LogValidator",
        blame=("client", "broker"),
        weird=("BATCH_OFFSETS",),
        read="opened",
        refused_with=(87,),
        checks=(Check(ByteFault.argument),),
        sentence="the batch's offsets do not increase up to its last offset",
        act="sent a record batch with offsets that decrease, or that lie beyond the last one announced",
        weight=85,
        must="Offset deltas increase from record to record, up to the batch's last offset delta.",
        advice="Number the records of a batch from 0, and set the last offset delta to that of the last record.",
        wrong="last offset delta 1, records with 0 9",
        right="last offset delta 1, records with 0 1",
    ),
    Rule(
        number=127,
        code="CODEC_INVALID",
        text="A record batch names a compression codec that does not exist.",
        source="Kafka: CompressionType",
        weird=("CODEC_INVALID",),
        read="batches",
        refused_with=(-1,),
        checks=(Check(ByteFault.argument),),
        sentence="the batch names a codec that does not exist",
        act="sent a record batch with a compression codec that does not exist",
        weight=60,
        must="The lowest three bits of a batch's attributes are 0 (none) to 4 (zstd).",
        advice="Keep the other bits of the attributes, and use a codec that all readers of the topic support.",
        wrong="attributes 6",
        right="attributes 4 (zstd)",
    ),
    Rule(
        number=128,
        code="LEGACY_MAGIC",
        text="A Produce request of version 3 or later carries messages of magic 0 or 1. Brokers refuse it.",
        source="KIP-98, KIP-896; Kafka: ProduceRequest.validateRecords",
        weird=("LEGACY_MAGIC",),
        read="produced",
        refused_with=(87,),
        checks=(Check(legacy),),
        sentence="a message set of an old format",
        act="sent messages of an old format that the request's version does not allow",
        weight=55,
        must="A Produce request of version 3 or later carries one batch of magic 2 for each partition.",
        advice="Write batches of magic 2. Magic 0 and 1 need Produce version 2 or earlier, which brokers do not "
        "support since 4.0.",
        wrong="Produce v7, magic 1",
        right="Produce v7, magic 2; Produce v2, magic 1",
    ),
)

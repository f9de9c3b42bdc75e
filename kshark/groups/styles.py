"""The acknowledgement style of a share group's member. No message contains it; acknowledgements show it.

An implicit member accepts all records of a fetch with its next request, and sends GAP for offsets without a record.
Only an explicit member chooses: it releases, rejects and renews, or acknowledges later records before earlier ones. (An
implicit member releases a record that it cannot deserialize, and rejects a batch with a wrong checksum. Both are rare.)
Source: KIP-932; Kafka: ShareConsumeRequestManager."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from kshark import limits
from kshark.groups.listed import AcknowledgementStyle
from kshark.offset_ranges import OffsetRanges
from kshark_dissectors.enums import AcknowledgeType

_FINAL: Final = -1
_CHOSEN: Final = (AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW)
_WORDS: Final = {
    AcknowledgeType.RELEASE: "released",
    AcknowledgeType.REJECT: "rejected",
    AcknowledgeType.RENEW: "renewed",
}

Partition = tuple[str, int]


class Style:
    """The style of one member. Call `request` and `acquired` in the order of the time line."""

    def __init__(self) -> None:
        #: Records by type that the member acknowledged, and those whose acknowledgements were refused.
        self._types: Counter[int] = Counter()
        self._refused: Counter[int] = Counter()
        self._whole = 0
        self._parts = 0
        self._skipped = 0
        #: The records that it holds, as far as the capture shows their acquisition.
        self._held: dict[Partition, OffsetRanges[bool]] = {}

    def request(self, epoch: int, topics: Any, answer: Any = None) -> None:
        """Take a ShareFetch or ShareAcknowledge with its answer. A final epoch releases the records that the member did
        not process."""
        errors = _errors(answer)
        for topic in topics or ():
            for partition in topic.partitions or ():
                if batches := partition.acknowledgement_batches:
                    key = (topic.topic_id, partition.partition_index)
                    error = getattr(answer, "error_code", 0) or errors.get(key, 0)
                    self._acknowledged(key, batches, final=epoch == _FINAL, is_refused=error != 0)
        if epoch == _FINAL:
            self._held.clear()

    def acquired(self, responses: Any) -> None:
        """Take the answer to a ShareFetch."""
        for topic in responses or ():
            for partition in topic.partitions or ():
                for range_ in partition.acquired_records or ():
                    if len(self._held) < limits.SESSION_PARTITIONS:
                        held = self._held.setdefault((topic.topic_id, partition.partition_index), OffsetRanges())
                        held.put(range_.first_offset, range_.last_offset, True)
                        held.keep(limits.HELD_RANGES)

    def inferred(self) -> AcknowledgementStyle:
        """Return the style, as inferred so far."""
        chosen = [f"{_WORDS[kind]} {self._types[kind]}" for kind in _CHOSEN if self._types[kind]]
        if self._skipped:
            chosen.append(f"left earlier records for later ×{self._skipped}")
        refused = [f"{self._refused.total()} refused"] if self._refused.total() else []
        if chosen or any(self._refused[kind] for kind in _CHOSEN):
            return AcknowledgementStyle("explicit", ", ".join(chosen + refused))
        accepted = self._types[AcknowledgeType.ACCEPT]
        if self._whole and not self._parts:
            did = [f"accepted {accepted}, all it held at once each time"] if accepted or not refused else []
            return AcknowledgementStyle("implicit", ", ".join(did + refused))
        did = [f"accepted {accepted}, in order"] if accepted else []
        return AcknowledgementStyle(None, ", ".join(did + refused) or "acknowledged nothing")

    def _acknowledged(self, partition: Partition, batches: Any, *, final: bool, is_refused: bool) -> None:
        held, counts = self._held.get(partition), self._refused if is_refused else self._types
        last = -1
        for batch in batches:
            size = max(0, batch.last_offset - batch.first_offset + 1)
            types = batch.acknowledge_types or ()
            for kind in types:
                if not (final and kind == AcknowledgeType.RELEASE):
                    counts[kind] += size if len(types) == 1 else 1
            if held is not None and AcknowledgeType.RENEW not in types:
                held.drop(batch.first_offset, batch.last_offset)
                last = max(last, batch.last_offset)
        if held is None or final:
            return
        if held.first is not None and held.first < last:
            self._skipped += 1
        self._whole += not held
        self._parts += bool(held)
        if not held:
            del self._held[partition]


def _errors(answer: Any) -> dict[Partition, int]:
    """Return the errors of acknowledgements by partition."""
    return {
        (topic.topic_id, partition.partition_index): getattr(partition, "acknowledge_error_code", partition.error_code)
        for topic in getattr(answer, "responses", None) or ()
        for partition in topic.partitions or ()
    }

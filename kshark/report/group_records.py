"""The records of a share group over time: acquired, and acknowledged by type and result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kshark import limits
from kshark.analysis.facts.reading import is_whole
from kshark.analysis.results.statistics import acknowledged_types
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.model import Exchange, Message
from kshark.report.mergeable import Bins

#: Kinds of counts by acknowledgement type (KIP-932, KIP-1222), and those without one.
_TYPES: Final = {1: "acks: accept", 2: "acks: release", 3: "acks: reject", 4: "acks: renew", 0: "acks: gap"}
ACQUIRED: Final = "acquired"
REFUSED: Final = "acks refused by the broker"
UNANSWERED: Final = "acks without an answer"
#: All kinds in the order of a picture.
KINDS: Final = (ACQUIRED, *_TYPES.values(), REFUSED, UNANSWERED)


class GroupRecords:
    """Count the records of exchanges. `times`: numbers by time and kind."""

    def __init__(self) -> None:
        self.times = Bins(limits.REPORT_CELLS)

    def feed(self, exchange: Exchange) -> None:
        """Count the records that a request acknowledges, and those that its answer delivers."""
        request, response = exchange.request, exchange.response
        if request is None or request.api_key not in (SHARE_FETCH, SHARE_ACKNOWLEDGE) or not is_whole(request):
            return
        answer = response if response is not None and is_whole(response) else None
        self._acknowledged(request, answer)
        if answer is not None and request.api_key == SHARE_FETCH:
            for _, result in _partitions(answer.body.responses):
                for run in result.acquired_records or ():
                    self.times.add(answer.time_ns, ACQUIRED, max(0, run.last_offset - run.first_offset + 1))

    def _acknowledged(self, request: Message, answer: Message | None) -> None:
        body: Any = request.body
        errors = {}
        if answer is not None:
            name = "acknowledge_error_code" if request.api_key == SHARE_FETCH else "error_code"
            errors = {key: getattr(result, name) for key, result in _partitions(answer.body.responses)}
        for key, listed in _partitions(body.topics):
            for batch in listed.acknowledgement_batches or ():
                for kind, count in acknowledged_types(batch).items():
                    if answer is None:
                        self.times.add(request.time_ns, UNANSWERED, count)
                    elif answer.body.error_code or errors.get(key):
                        self.times.add(request.time_ns, REFUSED, count)
                    elif kind in _TYPES:
                        self.times.add(request.time_ns, _TYPES[kind], count)


def _partitions(topics: Any) -> Iterator[tuple[tuple[str, int], Any]]:
    """Yield the partitions of a request or an answer by topic id and number."""
    for topic in topics or ():
        for partition in topic.partitions or ():
            yield (topic.topic_id, partition.partition_index), partition

"""Rates at which members accept, release and reject the records of a topic."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.calls import ShareStep
from kshark.analysis.states.partition.records_in_flight import AcknowledgedRange
from kshark.analysis.states.tables.in_flight import ACCEPT, REJECT, RELEASE

#: After this number of records the count starts again, because old records do not show the present rate.
_WINDOW: Final = 1_000
#: This number of released or rejected records, in this number of requests, is no accident if it is a large part of all
#: acknowledged records.
_MANY: Final = 10
_REQUESTS: Final = 3
_STORM: Final = 0.75
_OFTEN: Final = 0.25
#: Acknowledgement types that do not accept a record.
_BACK: Final = frozenset({RELEASE, REJECT})


class Rate(Struct, eq=False):
    """The records of a topic that a member acknowledged recently; `by`: the first request of the count."""

    by: ShareStep
    requests: int = 0
    accepted: int = 0
    released: int = 0
    rejected: int = 0

    @property
    def total(self) -> int:
        return self.accepted + self.released + self.rejected

    @property
    def is_release_storm(self) -> bool:
        """True if most records are released, to be delivered again."""
        return self.released >= _MANY and self.requests >= _REQUESTS and self.released >= _STORM * self.total

    @property
    def is_rejecting(self) -> bool:
        """True if many records are rejected."""
        return self.rejected >= _MANY and self.requests >= _REQUESTS and self.rejected >= _OFTEN * self.total


class Rates:
    """Rates by member and topic, from the first record that was not accepted; the least recently used are forgotten."""

    def __init__(self) -> None:
        self._rates: OrderedDict[tuple[str | None, str | None, str], Rate] = OrderedDict()

    def count(self, step: ShareStep, topic_id: str, runs: Sequence[AcknowledgedRange]) -> Rate | None:
        """Count the accepted acknowledgements of a request; None as long as the member accepts all records."""
        key = step.group_id, step.member_id, topic_id
        rate = self._rates.get(key)
        if rate is None and _BACK.isdisjoint([kind for _, _, kind in runs]):
            return None
        if rate is None or rate.total >= _WINDOW:
            rate = self._rates[key] = Rate(step)
            self._rates.move_to_end(key)
            if len(self._rates) > limits.RATIONED:
                self._rates.popitem(last=False)
        rate.requests += 1
        for first, last, kind in runs:
            if kind == ACCEPT:
                rate.accepted += last - first + 1
            elif kind == RELEASE:
                rate.released += last - first + 1
            elif kind == REJECT:
                rate.rejected += last - first + 1
        return rate

"""The lag of groups and members: records of their partitions that are not finished (KIP-1226)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kshark.analysis import Extent
from kshark.api_keys import FETCH, LIST_OFFSETS, PRODUCE
from kshark.groups.log_ends import LogEnds
from kshark.live.screen.rows import Place, RowKey
from kshark.model import Exchange

#: APIs whose responses show the end of a partition.
LOG_APIS: Final = frozenset({PRODUCE, FETCH, LIST_OFFSETS})
#: The lags are computed again after this time.
_EVERY_NS: Final = 1_000_000_000
#: Partitions whose records in flight are looked at one by one: those that ended do not count.
_LOOKED_AT: Final = 200


class Lags:
    """Lags by group and partition, and by group (None): only where the start offset and the end are known.

    `feed` takes exchanges of LOG_APIS, `extents` returns the records in flight of all share partitions. `topics`: names
    by id.
    """

    def __init__(self, topics: Mapping[str, str]) -> None:
        self.extents: Callable[[], Iterable[Extent]] = tuple
        self._ends = LogEnds(topics)
        self._of: dict[tuple[RowKey, Place | None], int] = {}
        self._due_ns = 0

    def feed(self, exchange: Exchange, cluster: int) -> None:
        self._ends.feed(exchange, cluster)

    def at(self, now_ns: int) -> Mapping[tuple[RowKey, Place | None], int]:
        """Return the lags at a time."""
        if now_ns >= self._due_ns or now_ns < self._due_ns - _EVERY_NS:
            self._due_ns = now_ns + _EVERY_NS
            self._of = self._computed()
        return self._of

    def _computed(self) -> dict[tuple[RowKey, Place | None], int]:
        lags: dict[tuple[RowKey, Place | None], int] = {}
        looked_at = 0
        for extent in self.extents():
            end = self._ends.at(extent.cluster, extent.topic_id, extent.partition)
            if extent.start is None or end is None:
                continue
            lag = max(end, extent.end or 0) - extent.start
            if lag > 0 and looked_at < _LOOKED_AT:
                looked_at += 1
                lag -= extent.ended
            group = RowKey(extent.cluster, extent.group_id or "")
            lags[group, (extent.topic_id, extent.partition)] = lag
            lags[group, None] = lags.get((group, None), 0) + lag
        return lags

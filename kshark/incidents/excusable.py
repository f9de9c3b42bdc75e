"""Findings that an incident may excuse. They wait until the incidents around them are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from kshark import limits
from kshark.analysis.results.packed_findings import PackedFindings, pack, unpack
from kshark.incidents.stage import Incidents
from kshark.model import Finding


class ExcusableFindings:
    """Keep findings with codes of EXCUSABLE, packed: the end of the capture decides, or a time without an incident.

    `certain` is for running captures. A file's findings wait for its end.
    """

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
        #: When each is looked at, its number, and itself.
        self._waiting: list[tuple[int, int, bytes]] = []
        self._count = 0

    def add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._wait(finding.time_ns + limits.EXCUSED_NS, pack(finding))

    def certain(self, now_ns: int) -> Iterator[Finding]:
        """Yield the findings that no incident can excuse any more, or that are excused for certain.

        All incidents that began before such a finding are over and reported. Those that are noticed late, such as bytes
        without an acknowledgement when they are sent again, have long been noticed.
        """
        for _ in range(max(limits.EXCUSED_EACH_TICK, len(self._waiting) // 100)):
            if not self._waiting or self._waiting[0][0] >= now_ns:
                return
            _, _, packed = heappop(self._waiting)
            finding = unpack(packed)
            if self._incidents.may_excuse(finding):
                self._wait(now_ns + limits.EXCUSED_NS, packed)
            else:
                yield finding

    def close(self) -> PackedFindings:
        """End the capture, and return the rest."""
        waiting, self._waiting = self._waiting, []
        return PackedFindings(unpack(packed) for _, _, packed in sorted(waiting, key=lambda it: it[1]))

    def _wait(self, due_ns: int, packed: bytes) -> None:
        self._count += 1
        heappush(self._waiting, (due_ns, self._count, packed))

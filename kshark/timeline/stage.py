"""The timeline of a capture: events of the time line in, entries in the order of time out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kshark.analysis import APIS as ANALYSED
from kshark.analysis import ShareSession
from kshark.groups import APIS as GROUP_APIS
from kshark.groups import Groups
from kshark.incidents import ROWS
from kshark.model import Event, Finding, Message
from kshark.names import TopicNames
from kshark.registry import Registry
from kshark.run import Run
from kshark.timeline.changes import APIS as CHANGED
from kshark.timeline.changes import Changes
from kshark.timeline.entry import Entry, in_order
from kshark.timeline.of_groups import entries_of
from kshark_dissectors.topics import NAMING_APIS

#: APIs whose bodies must be decoded; None: all, for incidents.
APIS: Final = ANALYSED | GROUP_APIS | CHANGED | NAMING_APIS
_INCIDENTS: Final = frozenset(row.code for row in ROWS)
#: Ends of share sessions that their clients did not ask for.
_LOST: Final = {"broker_restart": "the broker restarted", "evicted": "the broker evicted it"}


class Timeline:
    """Collect the entries of a capture. `left_out`: entries, and groups, beyond the limits."""

    def __init__(self, registry: Registry) -> None:
        self._names = TopicNames(registry)
        self._run = Run(registry, shows=lambda finding: finding.code in _INCIDENTS, sessions=True)
        self._groups = Groups()
        self._changes = Changes(self._names)

    @property
    def left_out(self) -> int:
        return self._changes.left_out + self._groups.left_out

    def page(self, page: list[Event]) -> None:
        for event in page:
            if type(event) is Message and event.api_key in NAMING_APIS:
                self._names.learn(event)
            self._groups.feed(event)
        self._run.page(page)
        self._changes.page(page)

    def close(self) -> list[Entry]:
        """End the capture, and return all entries."""
        self._run.close()
        self._groups.close()
        entries = self._changes.entries
        entries += map(_of_incident, self._run.findings)
        entries += _lost(self._run.sessions)
        entries += entries_of(self._groups.listed(self._names.by_id))
        return sorted(entries, key=in_order)


def _of_incident(finding: Finding) -> Entry:
    until_ns = finding.until_ns if isinstance(finding.until_ns, int) else None
    return Entry(
        finding.time_ns,
        finding.packet,
        "event",
        finding.argument,
        until_ns,
        finding.until_packet if isinstance(finding.until_packet, int) else None,
        finding.code,
        finding.verdict,
        broker=finding.broker,
        client=finding.client or None,
        client_id=finding.client_id,
        group_id=finding.group_id,
        member_id=finding.member_id,
        partition=finding.partition,
    )


def _lost(sessions: Iterable[ShareSession]) -> Iterator[Entry]:
    """Yield the share sessions that ended without their clients."""
    for session in sessions:
        closed = session.closed
        if closed is not None and closed.how in _LOST:
            text = (
                f"share session of member {session.member_id}, group {session.group_id}, ended at {session.broker}: "
                f"{_LOST[closed.how]}"
            )
            yield Entry(
                closed.time_ns, closed.packet, "session", text, broker=session.broker, group_id=session.group_id,
                member_id=session.member_id,
            )  # fmt: skip

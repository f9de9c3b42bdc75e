"""Fetches that may have acquired records and handed out none: who acquires those records next has them for the second
time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from kshark import limits
from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import FAILED_LATER, INVALID_EPOCH, Step
from kshark.analysis.states.session.state import SessionState

#: Fetches of one group at one broker that are remembered.
_MOST: Final = 16
#: No client lets a fetch wait so long (request.timeout.ms); its broker lets it wait as long as the client asked for,
#: also if that has gone.
_LONGEST_WAIT_NS: Final = 30_000_000_000


class Stranded:
    """`add` takes fetches, `of` gives those of a group at a broker."""

    def __init__(self) -> None:
        self._fetches: dict[tuple[str | None, Broker], deque[Step]] = {}

    def of(self, group_id: str | None, broker: Broker) -> Sequence[Step]:
        return self._fetches.get((group_id, broker), ())

    def add(self, step: Step, session: SessionState) -> bool:
        """A fetch without records; says whether it may be one: not answered, throttled, overtaken, or failed behind the
        session.

        A topic that does not exist fails the whole answer (UNKNOWN_SERVER_ERROR), and what was acquired of others stays
        locked: seen on
        4.1.2 and 4.3.1.
        """
        answer, last = step.answer, session.last
        overtaken = step.reply is INVALID_EPOCH and last is not None and last.packet > step.packet
        if answer is not None and not answer.throttled and not overtaken and step.reply is not FAILED_LATER:
            return False
        self._fetches.setdefault((step.group_id, session.broker), deque(maxlen=_MOST)).append(step)
        if len(self._fetches) > limits.SHARE_PARTITIONS:
            del self._fetches[next(iter(self._fetches))]
        return True


def may_have_acquired(fetch: Step, packet: int, time_ns: int) -> bool:
    """Whether such a fetch may have acquired records after that packet, at that time."""
    return fetch.end > packet or (fetch.answer is None and fetch.end_ns + _LONGEST_WAIT_NS > time_ns)

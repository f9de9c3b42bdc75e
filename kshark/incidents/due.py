"""Deadlines of what is due, checked by the times of packets, or by a clock in live capture."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Generic, Protocol, TypeVar

#: Later than every packet.
NEVER: Final = 1 << 62


class Awaited(Protocol):
    """Something that is due: an answer, the next fetch of a member, a login that must be renewed."""

    def due_ns(self) -> int | None:
        """Return the time until which it must have come; None if nothing is due any more."""


Subject = TypeVar("Subject", bound=Awaited)


class Due(Generic[Subject]):
    """Subjects by deadline.

    A subject's deadline may move later at any time: it is asked for it when its first deadline has passed. If its
    deadline moves earlier, or becomes due again, the subject is added again.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, Subject]] = []
        #: The deadline at which each subject, by id, is asked next.
        self._asked: dict[int, int] = {}
        self._count = 0
        #: The next time at which a subject is asked.
        self.next_ns = NEVER

    def add(self, subject: Subject) -> None:
        """Await a subject, at its deadline."""
        due_ns = subject.due_ns()
        if due_ns is None or due_ns >= self._asked.get(id(subject), NEVER):
            return
        self._asked[id(subject)] = due_ns
        self._count += 1
        heappush(self._entries, (due_ns, self._count, subject))
        self.next_ns = self._entries[0][0]

    def passed(self, now_ns: int) -> Iterator[Subject]:
        """Yield the subjects whose deadline lies before this time, in the order of their deadlines.

        A yielded subject is not awaited any more.
        """
        while self._entries and self._entries[0][0] < now_ns:
            asked_ns, _, subject = heappop(self._entries)
            if self._asked.get(id(subject)) == asked_ns:
                del self._asked[id(subject)]
                due_ns = subject.due_ns()
                if due_ns is not None and due_ns < now_ns:
                    yield subject
                else:
                    self.add(subject)
        self.next_ns = self._entries[0][0] if self._entries else NEVER

    def __reduce__(self) -> tuple[object, ...]:
        # Ids change when subjects are pickled.
        return _restored, (type(self), [entry for entry in self._entries if self._asked.get(id(entry[2])) == entry[0]])


def _restored(kind: type[Due[Subject]], entries: list[tuple[int, int, Subject]]) -> Due[Subject]:
    due = kind()
    for asked_ns, count, subject in entries:
        due._entries.append((asked_ns, count, subject))
        due._asked[id(subject)] = asked_ns
        due._count = max(due._count, count)
    heapify(due._entries)
    due.next_ns = due._entries[0][0] if due._entries else NEVER
    return due

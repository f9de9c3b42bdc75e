"""Decide which findings are saved and when: at most one recording of a cause and member in a time."""

from __future__ import annotations

from msgspec import Struct, field

from kshark.live.recorder.options import RecorderOptions
from kshark.model import Finding

#: Recordings that wait for their last packets, or for those before them to be written.
MOST_DUE = 32
#: Causes whose last recording is remembered.
_MOST_SAVED = 10_000
#: Packets of further findings that are named.
_NAMED = 1_000

#: Code, verdict, cause, blamed party, group and member or client.
Cause = tuple[str, str, str | None, str, str | None, str | None]


class Due(Struct):
    """A recording to be written from `due_ns` on: without a finding it is of everything, for a `reason`.

    `count`: findings like it up to then, in `packets` (the first thousand); `missed`: those since the recording before.
    """

    due_ns: int
    finding: Finding | None = None
    reason: str = ""
    count: int = 1
    packets: list[int] = field(default_factory=list)
    missed: int = 0


class _Saved(Struct):
    """The last recording of a cause: the time of its finding, and how many findings like it came after it."""

    time_ns: int
    missed: int = 0


class DueRecordings:
    """Take findings, and return the recordings that are due. Times are the packets'."""

    def __init__(self, options: RecorderOptions) -> None:
        self._options = options
        self._due: dict[Cause | str, Due] = {}
        self._saved: dict[Cause, _Saved] = {}
        #: Findings that have no recording of their own: repeats, and those beyond MOST_DUE.
        self.repeats = 0
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._due)

    def add(self, finding: Finding, now_ns: int) -> None:
        """Add a finding, if it is one of those that are saved."""
        codes = self._options.codes
        if finding.code not in codes if codes else finding.verdict != "violation":
            return
        cause = cause_of(finding)
        due, saved = self._due.get(cause), self._saved.get(cause)
        if due is not None:
            due.count += 1
            if len(due.packets) < _NAMED:
                due.packets.append(finding.packet)
            self.repeats += 1
        elif saved is not None and now_ns - saved.time_ns < self._options.per_ns:
            saved.missed += 1
            self.repeats += 1
        elif len(self._due) >= MOST_DUE:
            self.left_out += 1
        else:
            missed = 0 if saved is None else saved.missed
            due_ns = now_ns + self._options.after_ns
            self._due[cause] = Due(due_ns, finding, packets=[finding.packet], missed=missed)

    def ask(self, reason: str) -> bool:
        """Add a recording of everything; False if one is due already."""
        if reason in self._due:
            return False
        self._due[reason] = Due(0, reason=reason)
        return True

    def take(self, now_ns: int) -> list[Due]:
        """Return the recordings that are due at a time."""
        taken = [(key, due) for key, due in self._due.items() if due.due_ns <= now_ns]
        for key, due in taken:
            del self._due[key]
            if not isinstance(key, str):
                self._saved.pop(key, None)  # so that the longest unused one is forgotten first
                self._saved[key] = _Saved(due.due_ns - self._options.after_ns)
        while len(self._saved) > _MOST_SAVED:
            del self._saved[next(iter(self._saved))]
        return [due for _, due in taken]


def cause_of(finding: Finding) -> Cause:
    """Return what findings have in common of which one is saved."""
    who = finding.member_id or finding.client_id or finding.client
    return finding.code, finding.verdict, finding.cause, finding.blame, finding.group_id, who

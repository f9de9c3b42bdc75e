"""A fact that a state holds, with the packets between which it is certain. Only the judge compares them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

_LAST: Final = 1 << 62


class Known(Struct, frozen=True):
    """The packets between which a fact is certain, both included, and why it is uncertain outside of them.

    The name of the field or property that holds it says what the fact is. An argument needs it from its first witness
    to its last one. `because`: a word of kshark.analysis.facts.judge.REASONS; None: outside of these packets there is
    nothing to report.
    """

    since: int = 0
    until: int = _LAST
    because: str | None = None

    @property
    def is_certain(self) -> bool:
        """True if the fact is certain in all packets."""
        return self.covers(0, _LAST)

    def holds(self) -> bool | str:
        """Return True, or why the fact is uncertain: a proof that no later packet changes."""
        return True if self.is_certain else self.because or False

    def covers(self, first: int, last: int) -> bool:
        """True if the fact is certain between these packets."""
        return self.since <= first and last <= self.until


ALWAYS: Final = Known()


def never(because: str) -> Known:
    """Return a fact that is uncertain in all packets."""
    return Known(_LAST, 0, because)


def known_if(is_known: object, because: str) -> Known:
    """Return a fact that is certain in all packets, or in none."""
    return ALWAYS if is_known else never(because)


#: What happens outside the capture is in no packet known.
NOTHING_HIDDEN: Final = never("hidden_traffic")
#: What happened before the capture, or before a table of kshark forgot it.
BEGINNING: Final = never("beginning_not_seen")

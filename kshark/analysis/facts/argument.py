"""What a rule says: what is wrong, by which exchanges one knows, and what has to be certain for that to hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from kshark.analysis.facts.brokers import End
from kshark.analysis.facts.calls import Call, Partition
from kshark.analysis.facts.connections import Connection
from kshark.anomaly import Blame
from kshark_dissectors.enums import ErrorCode

_ERRORS: Final = {error.value: error.name for error in ErrorCode}


def refused_with(error: int | None) -> str:
    """As a sentence goes on; `error` None: the answer has one for each of several things that were asked."""
    return "was refused" if error is None else f"was refused with {_ERRORS.get(error, f'error {error}')}"


class Proof(Protocol):
    """Something that the capture may show later."""

    def holds(self) -> bool | str | None:
        """None while that cannot be told yet; a word of kshark.analysis.facts.judge.REASONS where it never can,
        `refuted` where all is well."""


class StillOpen(NamedTuple):
    """A connection was still open at a packet: a later request or FIN of its client shows it."""

    connection: Connection
    packet: int

    def holds(self) -> bool | None:
        return self.connection.is_used_after(self.packet)


class Needs(Struct, frozen=True):
    """What has to be certain.

    The exchanges themselves always have to: every byte of them, and of their connections between the first and the last
    of them.
    `state`: the session's state was observed, and the broker's answer agrees with it. `whole`: nothing is missing of
    the connections up to there, from their beginning on, which their end tells. `absence`: nothing happened unseen in
    that scope, which no capture proves.
    `proof` has to show up, or the finding is unknown because of `unproved`; None: or there is none.
    """

    state: bool = False
    whole: bool = False
    absence: str | None = None
    proof: Proof | None = None
    unproved: str | None = "end_not_seen"

    def and_proof(self, proof: Proof, unproved: str | None = "end_not_seen") -> Needs:
        return replace(self, proof=proof, unproved=unproved)


#: The exchange says it all.
EXCHANGE = Needs()
#: Also all that its connection carried before.
CONNECTION = Needs(whole=True)
#: Also the session's state.
STATE = Needs(state=True)
#: Also that the session was used nowhere else.
ABSENCE = Needs(state=True, absence="session")


class Place(NamedTuple):
    """Where a finding stands that is no exchange's."""

    connection: Connection
    packet: int
    time_ns: int


class Argument(Struct, frozen=True):
    """What a rule says, in one sentence, and the exchanges by which one knows (in their order, the one it is about
    last).

    `text` of what is rarely told may be a function: it is put into words only where somebody reads it, `said`.
    `ends` are ends of connections that it rests on too. `because` is a doubt that the rule itself has; `noted`: nobody
    broke a rule;
    `blame` None: the first that the rule's row names.
    """

    text: str | Callable[[], str]
    witness: Sequence[Call]
    needs: Needs = STATE
    cause: str | None = None
    blame: Blame | None = None
    noted: bool = False
    because: str | None = None
    partition: Partition | None = None
    offsets: tuple[int, int] | None = None
    place: Place | None = None
    ends: Sequence[End] = ()

    @property
    def said(self) -> str:
        return self.text if isinstance(self.text, str) else self.text()

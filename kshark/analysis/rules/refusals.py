"""Arguments about refused requests, and the words for offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument, ProofNeeds, refused_with
from kshark.analysis.facts.bases import Ground
from kshark.analysis.facts.calls import ShareStep
from kshark.analysis.states.partition.records_in_flight import Piece
from kshark.analysis.states.partition.situations import Acknowledging
from kshark.analysis.states.session.situation import SessionSituation

#: Number of ranges that a sentence lists individually.
_LISTED_RANGES: Final = 8


def refusal(
    situation: Acknowledging,
    reason: str,
    cause: str,
    offsets: tuple[int, int],
    before: tuple[ShareStep, ...] = (),
    *,
    needs: ProofNeeds = EXCHANGE,
    noted: bool = False,
    grounds: tuple[Ground, ...] = (),
) -> Argument:
    """Return an argument about the acknowledgements of one partition.

    `before`: the exchanges that prove it. `offsets`: the first and the last.
    """
    step = situation.step
    answered = f" and {refused_with(situation.error)}" if situation.error else ""
    text = f"{step.here} acknowledges {acknowledged(situation)}{answered} ({step.packets}): {reason}"
    return Argument(
        text,
        (*before, step),
        needs,
        cause,
        noted=noted,
        partition=situation.partition,
        offsets=offsets,
        grounds=grounds,
    )


def not_explained(situation: SessionSituation) -> Argument:
    """Return the argument about a refused share-session request that no other check explains."""
    text = "; ".join(step.story for step in (*situation.epoch_witness, situation.step))
    return Argument(
        text, (*situation.epoch_witness, situation.step), EXCHANGE.knowing(situation.explanation), "unknown"
    )


def acknowledged(situation: Acknowledging) -> str:
    first, last = situation.extent
    return f"{offsets_text(first, last)} of partition {situation.partition[1]}"


def offsets_text(first: int, last: int) -> str:
    """Return `offset 7` or `offsets 7 to 9`."""
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def named_ranges(pieces: Iterable[Piece]) -> str:
    """Return `offsets 2 to 5, 7`: adjacent ranges are joined.

    After eight ranges only the number of remaining offsets follows: `offsets 1, 3, 5, 7, 9, 11, 13, 15 and 2 more`.
    """
    ranges: list[tuple[int, int]] = []
    for first, last, _ in pieces:
        if ranges and ranges[-1][1] == first - 1:
            first, _ = ranges.pop()
        ranges.append((first, last))
    if len(ranges) == 1:
        return offsets_text(*ranges[0])
    named = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in ranges[:_LISTED_RANGES])
    rest = sum(last - first + 1 for first, last in ranges[_LISTED_RANGES:])
    return f"offsets {named} and {rest} more" if rest else f"offsets {named}"

"""Arguments about refusals, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument, ProofNeeds, refused_with
from kshark.analysis.facts.calls import ShareStep
from kshark.analysis.states.partition.records_in_flight import Piece
from kshark.analysis.states.partition.situations import Acknowledging
from kshark.analysis.states.session.situation import SessionSituation

#: Ranges that a sentence names one by one.
_NAMED: Final = 8


def refusal(
    now: Acknowledging,
    text: str,
    cause: str,
    offsets: tuple[int, int],
    before: tuple[ShareStep, ...] = (),
    *,
    needs: ProofNeeds = EXCHANGE,
    noted: bool = False,
    because: str | None = None,
) -> Argument:
    """An argument about acknowledgements of a partition; `before`: exchanges by which one knows, `offsets`: the first
    and the last."""
    step = now.step
    answered = f" and {refused_with(now.error)}" if now.error else ""
    said = f"{step.here} acknowledges {acknowledged(now)}{answered} ({step.packets}): {text}"
    return Argument(
        said, (*before, step), needs, cause, noted=noted, because=because, partition=now.partition, offsets=offsets
    )


def not_explained(now: SessionSituation) -> Argument:
    """A share-session request was refused, and nothing explains it."""
    text = "; ".join(step.story for step in (*now.epoch_witness, now.step))
    return Argument(text, (*now.epoch_witness, now.step), EXCHANGE, "unknown", because=now.why_unknown)


def acknowledged(now: Acknowledging) -> str:
    first, last = now.extent
    return f"{offsets_text(first, last)} of partition {now.partition[1]}"


def offsets_text(first: int, last: int) -> str:
    """Offsets in words."""
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def named_ranges(pieces: Iterable[Piece]) -> str:
    """`offsets 2 to 5, 7`: neighbours together, and not too many of them one by one."""
    ranges: list[tuple[int, int]] = []
    for first, last, _ in pieces:
        if ranges and ranges[-1][1] == first - 1:
            first, _ = ranges.pop()
        ranges.append((first, last))
    if len(ranges) == 1:
        return offsets_text(*ranges[0])
    named = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in ranges[:_NAMED])
    rest = sum(last - first + 1 for first, last in ranges[_NAMED:])
    return f"offsets {named} and {rest} more" if rest else f"offsets {named}"

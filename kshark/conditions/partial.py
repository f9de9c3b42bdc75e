"""What is left of a condition when some fields are known: branches that can no longer hold, or fail, fall away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from kshark.conditions.condition import ALWAYS, NEVER, And, Condition, Not, Or, Test


def settled(condition: Condition, known: Mapping[str, Any]) -> Condition:
    """The condition for rows in which these fields have these values (None: absent); ALWAYS or NEVER where they decide."""
    match condition:
        case And(items):
            parts = [part for part in (settled(item, known) for item in items) if part is not ALWAYS]
            return NEVER if any(part is NEVER for part in parts) else And(tuple(parts)) if parts else ALWAYS
        case Or(items):
            parts = [part for part in (settled(item, known) for item in items) if part is not NEVER]
            return ALWAYS if any(part is ALWAYS for part in parts) else Or(tuple(parts)) if parts else NEVER
        case Not(item):
            part = settled(item, known)
            return NEVER if part is ALWAYS else ALWAYS if part is NEVER else Not(part)
    if not condition.fields() <= known.keys():
        return condition
    return ALWAYS if _compiled(condition)(SimpleNamespace(**known)) else NEVER


@lru_cache(1024)
def _compiled(condition: Condition) -> Test:
    return condition.compiled()


def leaves(condition: Condition) -> Iterator[Condition]:
    """The conditions that are joined by and, or, not."""
    match condition:
        case And(items) | Or(items):
            for item in items:
                yield from leaves(item)
        case Not(item):
            yield from leaves(item)
        case _:
            yield condition

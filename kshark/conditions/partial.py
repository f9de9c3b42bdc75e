"""What is left of a condition when some fields are known: branches that can no longer hold, or fail, fall away.

And what can be said where only some fields are to be had at all: more rows may hold to that, none less.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from kshark.conditions.condition import ALWAYS, NEVER, And, Condition, Not, Or, Test
from kshark.conditions.versions import ByVersion


def settled(condition: Condition, known: Mapping[str, Any]) -> Condition:
    """The condition for rows in which these fields have these values (None: absent); ALWAYS or NEVER where they
    decide."""
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


def widened(condition: Condition, has: Collection[str], known: Mapping[Condition, Condition]) -> Condition:
    """What can be asked of rows that have these fields alone; it holds wherever the condition does. `known`: parts, in
    such rows' words."""
    if condition in known:
        return known[condition]
    match condition:
        case And() | Or() | ByVersion():
            return condition.mapped(lambda part: widened(part, has, known))
        case Not(item):
            part = widened(item, has, known)
            is_exact = not any(leaf is ALWAYS or isinstance(leaf, ByVersion) for leaf in leaves(part))
            return Not(part) if is_exact else ALWAYS
    return condition if condition.fields().issubset(has) else ALWAYS


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

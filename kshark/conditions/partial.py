"""Simplify a condition when only some fields are available.

`settled`: some fields have known values; branches that are decided disappear. `widened`: some fields cannot be read at
all; the result is true for all rows for which the condition is true, and maybe for more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from kshark.conditions.condition import ALWAYS, NEVER, And, Condition, Not, Or, Test
from kshark.conditions.versions import ByVersion


def settled(condition: Condition, values: Mapping[str, Any]) -> Condition:
    """Return the condition for rows in which these fields have these values (None: absent).

    ALWAYS or NEVER if the values decide it.
    """
    match condition:
        case And(items):
            parts = [part for part in (settled(item, values) for item in items) if part is not ALWAYS]
            return NEVER if any(part is NEVER for part in parts) else And(tuple(parts)) if parts else ALWAYS
        case Or(items):
            parts = [part for part in (settled(item, values) for item in items) if part is not NEVER]
            return ALWAYS if any(part is ALWAYS for part in parts) else Or(tuple(parts)) if parts else NEVER
        case Not(item):
            part = settled(item, values)
            return NEVER if part is ALWAYS else ALWAYS if part is NEVER else Not(part)
    if not condition.fields() <= values.keys():
        return condition
    return ALWAYS if _compiled(condition)(SimpleNamespace(**values)) else NEVER


def widened(condition: Condition, has: Collection[str], replacements: Mapping[Condition, Condition]) -> Condition:
    """Return a condition that reads only these fields and is true wherever the original is true.

    `replacements`: for parts of the condition, in such rows' own fields.
    """
    if condition in replacements:
        return replacements[condition]
    match condition:
        case And() | Or() | ByVersion():
            return condition.mapped(lambda part: widened(part, has, replacements))
        case Not(item):
            part = widened(item, has, replacements)
            is_exact = not any(leaf is ALWAYS or isinstance(leaf, ByVersion) for leaf in leaves(part))
            return Not(part) if is_exact else ALWAYS
    return condition if condition.fields().issubset(has) else ALWAYS


@lru_cache(1024)
def _compiled(condition: Condition) -> Test:
    return condition.compiled()


def leaves(condition: Condition) -> Iterator[Condition]:
    """Return the conditions that and, or, not join."""
    match condition:
        case And(items) | Or(items):
            for item in items:
                yield from leaves(item)
        case Not(item):
            yield from leaves(item)
        case _:
            yield condition

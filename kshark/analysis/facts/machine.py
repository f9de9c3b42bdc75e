"""What a machine is: something that a broker keeps state of, one for each value of its key, moved by the exchanges of
some APIs."""

from __future__ import annotations

from msgspec import Struct


class Machine(Struct, frozen=True):
    """`name` is its own alone; `key` names columns of the tables; `states` are what it can be in, none where its table
    is not written yet.

    Rules of a machine look at its steps in their order. Where one machine's steps lie together, no other is needed to
    judge them: that is what Spark's buckets follow from."""

    name: str
    key: tuple[str, ...]
    apis: frozenset[int]
    states: tuple[str, ...]
    about: str

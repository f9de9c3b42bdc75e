"""What a machine is: something that a broker keeps state of, one for each value of its key, moved by the exchanges of
some APIs."""

from __future__ import annotations

from typing import Any, NamedTuple

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


class StepType(NamedTuple):
    """What a step is, as far as that decides which checks look at it.

    `situation`: the machine's name, or the class of one of its several situations. `kind` (of epoch) and `reply` are
    None where checks ask for none. `accepted`: the broker took it. `refused`: one finding has to say why it did not.
    `contested`: what the capture shows agrees with several reasons, so that no explanation but the catch-all is asked.
    """

    situation: str
    api_key: int = 0
    kind: Any = None
    reply: Any = None
    accepted: bool = False
    refused: bool = False
    contested: bool = False

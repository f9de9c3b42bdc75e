"""Machines: the state that a broker keeps for each value of a key, changed by the exchanges of some APIs."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Machine(Struct, frozen=True):
    """A state machine of the broker.

    `name` is unique. `key` names columns of the tables. `states` is empty where its table is not written yet.

    The rules of a machine read its steps in their order. They need the steps of one key only; Spark's buckets follow
    from this.
    """

    name: str
    key: tuple[str, ...]
    apis: frozenset[int]
    states: tuple[str, ...]
    about: str


class StepType(Struct, frozen=True):
    """The type of a step: the fields that select the checks for it.

    `situation`: the machine's name, or the class of one of its several situations. `kind` (of epoch) and `reply` are
    None where checks do not depend on them.
    `accepted`: the broker accepted the step. `refused`: a finding must explain the refusal.
    `contested`: the capture agrees with several reasons, so only the catch-all explanation is asked.
    """

    situation: str
    api_key: int = 0
    kind: Any = None
    reply: Any = None
    accepted: bool = False
    refused: bool = False
    contested: bool = False

"""The in-flight machine: the records of a share partition between acquisition and the end. Its table is not written yet."""

from __future__ import annotations

from typing import Final

from kshark.analysis.machines.machine import Machine
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH

IN_FLIGHT: Final = Machine(
    "in flight",
    key=("group_id", "topic_id", "partition"),
    apis=frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE}),
    states=(),
    about="the in-flight records of a share partition (KIP-932)",
)

"""The member machine: a member of a share group from its join to its leave. Its table is not written yet; rules see its heartbeats."""

from __future__ import annotations

from typing import Final

from kshark.analysis.machines.machine import Machine
from kshark.api_keys import SHARE_GROUP_HEARTBEAT

MEMBER: Final = Machine(
    "member", key=("group_id", "member_id"), apis=frozenset({SHARE_GROUP_HEARTBEAT}), states=(), about="a member of a share group (KIP-932)"
)

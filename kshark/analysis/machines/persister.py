"""The persister machine: what a share coordinator stores of a share partition. Its table is not written yet."""

from __future__ import annotations

from typing import Final

from kshark.analysis.machines.machine import Machine
from kshark.api_keys import (
    DELETE_SHARE_GROUP_STATE,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    WRITE_SHARE_GROUP_STATE,
)

PERSISTER: Final = Machine(
    "persister",
    key=("group_id", "topic_id", "partition"),
    apis=frozenset(
        {
            INITIALIZE_SHARE_GROUP_STATE,
            READ_SHARE_GROUP_STATE,
            WRITE_SHARE_GROUP_STATE,
            DELETE_SHARE_GROUP_STATE,
            READ_SHARE_GROUP_STATE_SUMMARY,
        }
    ),
    states=(),
    about="the stored state of a share partition (KIP-932)",
)

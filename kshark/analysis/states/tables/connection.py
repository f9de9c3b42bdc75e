"""The connection machine: the exchanges of one TCP connection, for any API. Its table is not written yet."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.machine import Machine

#: No API of its own: each rule names the APIs that it reads.
CONNECTION: Final = Machine(
    "connection", key=("flow_id",), apis=frozenset(), states=(), about="the exchanges of one connection"
)

"""The connection machine: the exchanges of one TCP connection, of whatever API. Its table is not written yet."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.machine import Machine

#: No API of its own: a rule names those it looks at.
CONNECTION: Final = Machine(
    "connection", key=("flow_id",), apis=frozenset(), states=(), about="the exchanges of one connection"
)

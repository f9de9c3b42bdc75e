"""Machines: what a broker keeps state of, each a table of states and events with the key by which its steps belong
together."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.machine import Machine
from kshark.analysis.states.tables.connection import CONNECTION
from kshark.analysis.states.tables.in_flight import IN_FLIGHT
from kshark.analysis.states.tables.member import MEMBER
from kshark.analysis.states.tables.persister import PERSISTER
from kshark.analysis.states.tables.session import SESSION

MACHINES: Final = (SESSION, IN_FLIGHT, MEMBER, PERSISTER, CONNECTION)

__all__ = ["CONNECTION", "IN_FLIGHT", "MACHINES", "MEMBER", "PERSISTER", "SESSION", "Machine"]

"""Machines: tables of the states and events of a broker's state, with the key that selects its steps."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.machine import Machine
from kshark.analysis.states.tables.connection import CONNECTION
from kshark.analysis.states.tables.in_flight import IN_FLIGHT
from kshark.analysis.states.tables.member import CONSUMER, GENERATION, MEMBER
from kshark.analysis.states.tables.persister import PERSISTER
from kshark.analysis.states.tables.session import SESSION

MACHINES: Final = (SESSION, IN_FLIGHT, MEMBER, CONSUMER, GENERATION, PERSISTER, CONNECTION)

__all__ = ["CONNECTION", "CONSUMER", "GENERATION", "IN_FLIGHT", "MACHINES", "MEMBER", "PERSISTER", "SESSION", "Machine"]

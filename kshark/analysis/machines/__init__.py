"""Machines: what a broker keeps state of, each a table of states and events with the key by which its steps belong
together."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.machine import Machine
from kshark.analysis.machines.connection import CONNECTION
from kshark.analysis.machines.in_flight import IN_FLIGHT
from kshark.analysis.machines.member import MEMBER
from kshark.analysis.machines.persister import PERSISTER
from kshark.analysis.machines.session import SESSION

MACHINES: Final = (SESSION, IN_FLIGHT, MEMBER, PERSISTER, CONNECTION)

__all__ = ["CONNECTION", "IN_FLIGHT", "MACHINES", "MEMBER", "PERSISTER", "SESSION", "Machine"]

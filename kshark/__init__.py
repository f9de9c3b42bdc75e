"""kshark: wire-traffic decoder and protocol analyzer for Apache Kafka.

    for message in kshark.read("a.pcap"): ...           # requests and responses, in the order of their last packets
    for finding in kshark.check("a.pcap"): ...          # who broke which rule, when, and how we know
    kshark.sessions, kshark.deliveries, kshark.groups   # share sessions, records in flight, groups of all types
    kshark.events("a.pcap")                             # the timeline: brokers down, leaders moved, topics deleted
    kshark.tables("a.pcap")["exchanges"]                # Arrow tables in memory, those of `kshark export`
    kshark.decode(78, 1, "request", data) -> dict       # one body
    kshark.encode(78, 1, "request", value) -> bytes

Functions take several files as one capture, and the keyword arguments of `Options`. Results have the attributes of the
JSON lines of the command of that name, and `to_dict`. Importing kshark imports nothing heavy; its functions do when
they are first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kshark.errors import DecodeError, EncodeError, Error, NothingJudged, SchemaError, UnreadableInput, UsageError

if TYPE_CHECKING:
    from kshark.analysis import Delivery, ShareSession
    from kshark.bodies import decode, encode
    from kshark.face import Options, check, deliveries, events, groups, read, sessions, tables
    from kshark.groups.listed import ListedGroup as Group
    from kshark.listed_message import ListedMessage as Message
    from kshark.model import Witness
    from kshark.output.json_findings import ListedFinding as Finding
    from kshark.timeline import Entry

    __version__: str

#: The version of a checkout that was never built or installed; the build writes kshark/_version.py.
_UNBUILT = "0.2.0.dev0"
__all__ = [
    "DecodeError",
    "Delivery",
    "EncodeError",
    "Entry",
    "Error",
    "Finding",
    "Group",
    "Message",
    "NothingJudged",
    "Options",
    "SchemaError",
    "ShareSession",
    "UnreadableInput",
    "UsageError",
    "Witness",
    "check",
    "decode",
    "deliveries",
    "encode",
    "events",
    "groups",
    "read",
    "sessions",
    "tables",
]
#: The module of each name, and its name there if it is another one.
_PLACES = {
    **dict.fromkeys(
        ("Options", "check", "deliveries", "events", "groups", "read", "sessions", "tables"), ("kshark.face", "")
    ),
    "Delivery": ("kshark.analysis", ""),
    "Entry": ("kshark.timeline", ""),
    "Finding": ("kshark.output.json_findings", "ListedFinding"),
    "Group": ("kshark.groups.listed", "ListedGroup"),
    "Message": ("kshark.listed_message", "ListedMessage"),
    "ShareSession": ("kshark.analysis", ""),
    "Witness": ("kshark.model", ""),
    "decode": ("kshark.bodies", ""),
    "encode": ("kshark.bodies", ""),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        try:
            return import_module("kshark._version").__version__
        except ModuleNotFoundError:
            return _UNBUILT
    if name not in _PLACES:
        raise AttributeError(f"module 'kshark' has no attribute {name!r}")
    module, its_name = _PLACES[name]
    return getattr(import_module(module), its_name or name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Package(ModuleType):
    """This module. `kshark.groups` and `kshark.tables` are functions, though packages in it have these names.

    The import of such a package sets no attribute.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _PLACES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

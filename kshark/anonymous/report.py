"""A report, and the rows of its findings, with pseudonyms for names and addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kshark.anonymous.pseudonyms import Kind, Pseudonyms
from kshark.endpoints import address_of
from kshark.report.facts import Report

if TYPE_CHECKING:
    import pyarrow as pa

#: The kind of name by key, in reports and in rows of findings.
_KINDS: Final[Mapping[str, Kind]] = {
    "client_id": "client",
    "group_id": "group",
    "host": "address",
    "address": "address",
    "member_id": "member",
    "topic": "topic",
    "topic_id": "id",
    "cluster": "cluster",
    "clusters": "cluster",
}
#: Keys with an end of a connection, `address:port`, with sentences, and with names of captures and files.
_ENDS: Final = frozenset({"broker", "brokers", "client", "proxy"})
_SENTENCES: Final = frozenset({"argument", "event", "text"})
_FILES: Final = frozenset({"capture", "file", "files", "name"})
#: What a bar of the findings over time is about: the kind of its name.
_DIMENSIONS: Final[Mapping[str, Kind]] = {"client": "client", "group": "group"}


def anonymous_report(report: Report, names: Pseudonyms) -> Report:
    """Return the report with pseudonyms: also in sentences, for the names that the report has in fields."""
    plain = msgspec.to_builtins(report)
    _report(plain, names)  # learns the names
    return msgspec.convert(_report(plain, names), Report)


def anonymous_rows(batches: Iterable[pa.RecordBatch], names: Pseudonyms) -> list[pa.RecordBatch]:
    """Return rows of findings with pseudonyms. Their names were learned from the report."""
    return [batch.from_pylist([_row(row, names) for row in batch.to_pylist()], batch.schema) for batch in batches]


def _row(row: dict[str, Any], names: Pseudonyms) -> dict[str, Any]:
    mapped: dict[str, Any] = _mapped(row, names)
    capture, _, packet = row["flow_id"].rpartition(":")
    return mapped | {"flow_id": f"{_file(capture, names)}:{packet}"}


def _report(plain: dict[str, Any], names: Pseudonyms) -> dict[str, Any]:
    """Map a report as plain values; `name` is a client, a group or a file, by where it stands."""
    mapped: dict[str, Any] = _mapped(plain, names)
    for key, name in (("clients_in_findings", names_of_clients(names)), ("groups_in_findings", _of("group", names))):
        for row, before in zip(mapped[key], plain[key], strict=True):
            row["name"] = name(before["name"])
    for cell, before in zip(mapped["over_time"]["cells"], plain["over_time"]["cells"], strict=True):
        kind = _DIMENSIONS.get(before["dimension"])
        name = names_of_clients(names) if kind == "client" else _of("group", names)
        cell["name"] = before["name"] if kind is None else name(before["name"])
    return mapped


def _mapped(value: Any, names: Pseudonyms, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _mapped(part, names, name) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(part, names, key) for part in value]
    if not isinstance(value, str):
        return value
    if key in _KINDS:
        return names.of(_KINDS[key], value)
    if key == "clients":
        return names_of_clients(names)(value)
    if key in _ENDS:
        return names.end(value)
    if key in _FILES:
        return _file(value, names)
    return names.text(value) if key in _SENTENCES else value


def names_of_clients(names: Pseudonyms) -> Callable[[str], str]:
    """Return the function that maps what a client is called: by its id, or by its address if it has none."""

    def name(client: str) -> str:
        return names.of("address" if address_of(f"{client}:0") else "client", client)

    return name


def _of(kind: Kind, names: Pseudonyms) -> Callable[[str], str]:
    return lambda name: names.of(kind, name)


def _file(name: str, names: Pseudonyms) -> str:
    """Return the pseudonym of a file, with the suffixes of its kind."""
    return names.of("file", name) + "".join(PurePath(name).suffixes[-1:])

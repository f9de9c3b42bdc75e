"""A broker's own request log beside what kshark read from the wire, exchange by exchange and field by field."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.witness.reasons import why_an_orphan, why_not_logged, why_not_on_wire
from tests.witness.values import as_java_reads, unlike
from tests.witness.wire import Seen, Wire, wire_of


@dataclass
class Comparison:
    """What two witnesses of one capture say. `proved`: the (api key, version, direction) that both read the same."""

    logged: int = 0
    equal: int = 0
    different: list[str] = field(default_factory=list)
    #: In the log and not on the wire, and the other way round: (api, reason) -> count.
    only_logged: Counter[tuple[str, str]] = field(default_factory=Counter)
    only_wire: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Oddities of exchanges that both read the same: (api, code) -> count.
    weird: Counter[tuple[str, str]] = field(default_factory=Counter)
    proved: set[tuple[int, int, str]] = field(default_factory=set)

    @property
    def reasons(self) -> set[str]:
        return {reason for _, reason in (*self.only_logged, *self.only_wire)}


def log_of(capture: Path) -> list[dict[str, Any]]:
    """The lines of the request log beside a capture."""
    with gzip.open(capture.with_suffix(".requests.jsonl.gz"), "rt") as lines:
        return [json.loads(line) for line in lines]


def ends_of(line: dict[str, Any]) -> tuple[str, str]:
    """Client and broker of a line."""
    match = re.match(r"(.+?:\d+)-(.+?:\d+)(?:-\d+)+$", line["connection"])
    assert match is not None
    return match[2], match[1]


def compare(capture: Path, tls_keys: bytes = b"") -> Comparison:
    """The log against the wire: per connection, by api, version and correlation id, in order."""
    result, wire = Comparison(), wire_of(capture, tls_keys)
    logged: dict[tuple[Any, ...], deque[dict[str, Any]]] = defaultdict(deque)
    for line in log_of(capture):
        header = line["requestHeader"]
        what = (header["requestApiKey"], header["requestApiVersion"], header["correlationId"])
        logged[bool(line.get("isForwarded")), *ends_of(line), *what].append(line)
        result.logged += 1
    for seen in wire.seen:
        if lines := logged.get(seen.key):
            _hold_together(seen, lines.popleft(), wire, result)
        else:
            result.only_wire[seen.api, why_not_logged(seen, wire)] += 1
    for exchange in wire.orphans:
        result.only_wire["(answer)", why_an_orphan(exchange, wire)] += 1
    for line in (line for lines in logged.values() for line in lines):
        result.only_logged[line["requestHeader"]["requestApiKeyName"], why_not_on_wire(line, ends_of(line), wire)] += 1
    return result


def _hold_together(seen: Seen, line: dict[str, Any], wire: Wire, result: Comparison) -> None:
    wrong = []
    for direction, read in (("request", seen.request), ("response", seen.response)):
        if line.get(direction) and read is not None:
            found = list(unlike(line[direction], read))
            wrong += [f"{seen.api} v{seen.version} packet {seen.packet} {direction}{each}" for each in found]
            if not found:
                result.proved.add((seen.api_key, seen.version, direction))
    client_id = line["requestHeader"].get("clientId") or ""
    if client_id != as_java_reads(seen.client_id):
        wrong.append(
            f"{seen.api} v{seen.version} packet {seen.packet} client id {client_id!r} logged, {seen.client_id!r} read"
        )
    for code in seen.weird:
        if code == "RESYNC" and (seen.flow.opened_by is None or seen.flow.id in wire.damaged):
            continue  # a connection begun before the capture, or with a hole: its boundaries are found, not known
        result.weird[seen.api, code] += 1
    result.different += wrong
    result.equal += not wrong

"""A broker's own request log beside what kshark read from the wire, exchange by exchange and field by field.

`python -m tests.witness CAPTURE...` prints the comparison as a table. What the log leaves out on purpose is data here.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import UNSET

from kshark.capture import open_captures
from kshark.codec import plain
from kshark.model import Closed, Exchange
from kshark.pipeline import Engine, Options

#: Kafka's names that are not camelCase word by word.
NAMES = {
    "v3AndBelowTopics": "v3_and_below_topics",
    "kRaftVersion": "kraft_version",
    "kRaftVersionFeature": "kraft_version_feature",
    "enable2Pc": "enable2_pc",
}
#: Names that a release's log still has for what is called otherwise today.
RENAMED = {"generation_id": "generation_id_or_member_epoch", "candidate_id": "replica_id", "candidate_epoch": "replica_epoch"}
#: What a log writes in place of a value that may be a secret.
HIDDEN = "[hidden]"
#: Values a log leaves out when a field is ignorable or tagged.
EMPTY: tuple[Any, ...] = (0, -1, "", None, False, [], {}, "AAAAAAAAAAAAAAAAAAAAAA", -(1 << 31), (1 << 31) - 1, (1 << 63) - 1)


@dataclass
class Comparison:
    """What two witnesses of one capture say."""

    logged: int = 0
    equal: int = 0
    different: list[str] = field(default_factory=list)
    forwarded: int = 0
    #: In the log and not on the wire: (api, reason) -> count; and the other way round.
    only_logged: Counter[tuple[str, str]] = field(default_factory=Counter)
    only_wire: Counter[tuple[str, str]] = field(default_factory=Counter)


def snake(name: str) -> str:
    return NAMES.get(name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def unlike(logged: Any, read: Any, path: str = "") -> Iterator[str]:
    """Where a logged value and a decoded one differ; silent about payloads, which the log does not hold."""
    if isinstance(logged, dict) and isinstance(read, dict):
        seen = set()
        for name, value in logged.items():
            own = snake(name)
            if own not in read and RENAMED.get(own) in read:
                own = RENAMED[own]
            if own.endswith("_size_in_bytes") and own.removesuffix("_size_in_bytes") in read:
                own = own.removesuffix("_size_in_bytes")
                size = (read[own] or {}).get("size", 0)
                if size != value:
                    yield f"{path}.{own}: size {value} logged, {size} read"
            elif own not in read:
                if value not in EMPTY:
                    yield f"{path}.{own}: {value!r:.60} logged, absent"
            elif isinstance(read[own], dict) and "size" in read[own] and not isinstance(value, dict):
                pass
            else:
                yield from unlike(value, read[own], f"{path}.{own}")
            seen.add(own)
        for own, value in read.items():
            if own not in seen and own != "_tagged" and not _empty(value):
                yield f"{path}.{own}: {value!r:.60} read, not logged"
    elif isinstance(logged, list) and isinstance(read, list):
        if len(logged) != len(read):
            yield f"{path}: {len(logged)} elements logged, {len(read)} read"
        for index, (a, b) in enumerate(zip(logged, read, strict=False)):
            yield from unlike(a, b, f"{path}[{index}]")
    elif isinstance(read, float) and isinstance(logged, (int, float)):
        if float(logged) != read:
            yield f"{path}: {logged} logged, {read} read"
    elif logged not in (read, HIDDEN) and not (logged == "" and read is None):
        yield f"{path}: {logged!r:.60} logged, {read!r:.60} read"


def _empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_empty(inner) for inner in value.values())
    return value in EMPTY


def log_of(capture: Path) -> list[dict[str, Any]]:
    """The lines of the request log beside a capture."""
    with gzip.open(capture.with_suffix(".requests.jsonl.gz"), "rt") as lines:
        return [json.loads(line) for line in lines]


def jsonable(value: Any) -> Any:
    """A body as kshark's JSON has it (bytes as base64)."""
    import msgspec

    return msgspec.json.decode(msgspec.json.encode(plain(value)))


def exchanges_of(capture: Path) -> Iterator[tuple[Exchange, Closed | None]]:
    engine = Engine(Options(records=False))
    pages = [page for item in open_captures([capture]) for page in engine.feed(item)]
    pages += list(engine.close())
    ends = {event.flow.id: event for page in pages for event in page if isinstance(event, Closed)}
    for page in pages:
        for event in page:
            if isinstance(event, Exchange):
                yield event, ends.get(event.flow.id)


def compare(capture: Path, apis: frozenset[int] | None = None) -> Comparison:
    """The log against the wire: per connection, by api, version and correlation id, in order."""
    result = Comparison()
    logged: dict[tuple[Any, ...], deque[dict[str, Any]]] = defaultdict(deque)
    for line in log_of(capture):
        header = line["requestHeader"]
        broker, client = re.match(r"(.+?:\d+)-(.+?:\d+)(?:-\d+)+$", line["connection"]).groups()  # type: ignore[union-attr]
        if line.get("isForwarded"):  # its wire is the Envelope around it
            result.forwarded += 1
        elif apis is None or header["requestApiKey"] in apis:
            result.logged += 1
            key = (client, broker, header["requestApiKey"], header["requestApiVersion"], header["correlationId"])
            logged[key].append(line)
    for exchange, closed in exchanges_of(capture):
        request, response = exchange.request, exchange.response
        if request is None or (apis is not None and request.api_key not in apis):
            if request is None and response is not None:
                result.only_wire["(unknown)", "answer without request"] += 1
            continue
        key = (request.client, request.broker, request.api_key, request.version, request.correlation_id)
        lines = logged.get(key)
        where = f"{request.api} v{request.version} packet {request.packet}"
        if not lines:
            reason = exchange.outcome + (f", connection ends: {closed.how}" if closed and exchange.outcome == "unanswered" else "")
            if response is not None and response.weird is not UNSET:
                reason += f", {response.weird}"
            if request.weird is not UNSET:
                reason += f", request {request.weird}"
            result.only_wire[str(request.api), reason] += 1
            continue
        line = lines.popleft()
        wrong = [f"{where} request{x}" for x in unlike(line["request"], jsonable(request.body))] if line["request"] else []
        if response is not None and line.get("response") is not None:
            wrong += [f"{where} response{x}" for x in unlike(line["response"], jsonable(response.body))]
        if (line["requestHeader"].get("clientId") or "") != (request.client_id or ""):
            wrong.append(f"{where} client id {line['requestHeader'].get('clientId')!r} logged, {request.client_id!r} read")
        for message in (request, response):
            if message is not None and message.weird is not UNSET and message.weird != ["RESYNC"]:
                wrong.append(f"{where} {message.kind} weird {message.weird} {message.detail}")
        result.different += wrong
        result.equal += not wrong
    for lines in logged.values():
        for line in lines:
            result.only_logged[line["requestHeader"]["requestApiKeyName"], ""] += 1
    return result


def main(paths: list[str]) -> None:
    print(f"{'capture':<32}{'logged':>8}{'equal':>8}{'differ':>8}{'log only':>9}{'wire only':>10}")
    for path in map(Path, paths):
        result = compare(path)
        print(
            f"{path.stem:<32}{result.logged:>8}{result.equal:>8}{len(result.different):>8}"
            f"{result.only_logged.total():>9}{result.only_wire.total():>10}"
        )
        for line in result.different[:5]:
            print("   differs:", line[:200])
        for (api, reason), count in sorted(result.only_logged.items()):
            print(f"   log only: {count} {api} {reason}")
        for (api, reason), count in sorted(result.only_wire.items()):
            print(f"   wire only: {count} {api} {reason}")


if __name__ == "__main__":
    main(sys.argv[1:])

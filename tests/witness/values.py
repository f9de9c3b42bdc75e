"""A logged value beside a decoded one, field by field. What a log leaves out, hides or calls otherwise is data here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kshark.codec import plain

#: Kafka's names that are not camelCase word by word.
NAMES: Final = {
    "v3AndBelowTopics": "v3_and_below_topics",
    "kRaftVersion": "kraft_version",
    "kRaftVersionFeature": "kraft_version_feature",
    "enable2Pc": "enable2_pc",
}
#: Names that a release's log still has for what is called otherwise today.
RENAMED: Final = {
    "generation_id": "generation_id_or_member_epoch",
    "candidate_id": "replica_id",
    "candidate_epoch": "replica_epoch",
}
#: What a log writes in place of a value that may be a secret.
HIDDEN: Final = "[hidden]"
#: Values a log leaves out when a field is ignorable or tagged.
EMPTY: Final[tuple[Any, ...]] = (
    *(0, -1, "", None, False, [], {}, "AAAAAAAAAAAAAAAAAAAAAA"),
    *(-(1 << 31), (1 << 31) - 1, (1 << 63) - 1),
)


def snake(name: str) -> str:
    return NAMES.get(name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def jsonable(value: Any) -> Any:
    """A body as kshark's JSON has it (bytes as base64); None for one that was not read."""
    return None if value is msgspec.UNSET else msgspec.json.decode(msgspec.json.encode(plain(value)))


def as_java_reads(text: str | None) -> str:
    """A client id with the sign that Java puts for each byte that is no UTF-8, "" for null."""
    return re.sub(r"\\x[0-9a-f]{2}", "\ufffd", text or "")


def unlike(logged: Any, read: Any, path: str = "") -> Iterator[str]:
    """Where a logged value and a decoded one differ; silent about payloads, which the log does not hold."""
    if isinstance(logged, dict) and isinstance(read, dict):
        yield from _unlike_structs(logged, read, path)
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


def _unlike_structs(logged: dict[str, Any], read: dict[str, Any], path: str) -> Iterator[str]:
    seen = set()
    for name, value in logged.items():
        own = _own_name(snake(name), read)
        seen.add(own)
        if own not in read:
            if value not in EMPTY:
                yield f"{path}.{own}: {value!r:.60} logged, absent"
        elif name.endswith("SizeInBytes"):
            size = (read[own] or {}).get("size", 0)
            if size != value:
                yield f"{path}.{own}: size {value} logged, {size} read"
        elif not (_is_records(read[own]) and not isinstance(value, dict)):
            yield from unlike(value, read[own], f"{path}.{own}")
    for own, value in read.items():
        if own not in seen and own != "_tagged" and not _empty(value):
            yield f"{path}.{own}: {value!r:.60} read, not logged"


def _own_name(name: str, read: dict[str, Any]) -> str:
    if name not in read and RENAMED.get(name) in read:
        return RENAMED[name]
    stem = name.removesuffix("_size_in_bytes")
    return stem if stem in read else name


def _is_records(value: Any) -> bool:
    return isinstance(value, dict) and "size" in value


def _empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_empty(inner) for inner in value.values())
    return value in EMPTY

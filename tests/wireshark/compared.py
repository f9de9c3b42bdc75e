"""Messages of a capture as tshark shows them with the generated dissector, beside `kshark read -T json`.

`python -m tests.wireshark.compared FILE...` prints the figures of captures.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from kshark.registry import kafka_registry
from kshark.wireshark import lua_script
from tests.patience import PATIENCE_S
from tests.shared import ROOT, pythonpath

#: Items of a message that are not its body.
_HEADER = (
    "len", "api", "api_key", "api_version", "client_id", "correlation_id", "latency", "request", "request_in",
    "response", "response_in",
)  # fmt: skip
#: Fields of a batch's header that both name alike; batch_length does not count itself and the offset.
_BATCH = (
    "base_offset", "batch_length", "partition_leader_epoch", "magic", "crc", "last_offset_delta", "base_timestamp",
    "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count",
)  # fmt: skip


class Key(NamedTuple):
    """What identifies a message: `packet` completes it; None where it has no header that can be read."""

    packet: int
    kind: str
    api: str | None
    version: int | None
    correlation_id: int | None


class Raw(NamedTuple):
    """A value in tshark's output: its text, its bytes in hex, and the record batches in it."""

    show: str
    value: str
    batches: tuple[dict[str, Any], ...] = ()


@dataclass
class Shown:
    """A message in tshark's output."""

    key: Key
    client_id: str | None
    request_packet: int | None
    latency: str | None
    size: int
    body: dict[str, Any]
    label: str


@dataclass
class Comparison:
    """Messages that both read, fields that were compared, and the differences."""

    messages: int = 0
    fields: int = 0
    different: list[str] = field(default_factory=list)
    only_kshark: list[tuple[Key, str]] = field(default_factory=list)
    only_tshark: list[tuple[Key, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    kinds: set[tuple[str | None, int | None, str]] = field(default_factory=set)


def compare(capture: Path, script: Path, *options: str, by_port: bool = True) -> Comparison:
    """Read a capture with both. `options` are tshark's; `by_port`: tshark gets the brokers' ports."""
    result = Comparison()
    theirs: defaultdict[Key, list[dict[str, Any]]] = defaultdict(list)
    ports = set()
    for message in messages_of(capture):
        theirs[_key(message)].append(message)
        ports.add(message["broker"].rpartition(":")[2])
    named = ["-o", f"kshark.ports:{','.join(sorted(ports))}"] if by_port and ports else []
    for shown in shown_of(capture, script, *named, *options, errors=result.errors):
        same = theirs.get(shown.key)
        if not same:
            result.only_tshark.append((shown.key, shown.label))
            continue
        message = same.pop(0)
        result.messages += 1
        result.kinds.add((shown.key.api, shown.key.version, shown.key.kind))
        _compare_message(shown, message, result)
    for key, messages in theirs.items():
        result.only_kshark += [(key, ",".join(message.get("weird", ()))) for message in messages]
    return result


def messages_of(capture: Path) -> Iterator[dict[str, Any]]:
    """Yield what `kshark read -T json` prints."""
    command = [sys.executable, "-m", "kshark", "read", str(capture), "-T", "json", "--no-payload", "--secrets"]
    environment = os.environ | {"PYTHONPATH": pythonpath()}
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False, cwd=ROOT, env=environment)
    for line in done.stdout.splitlines():
        yield json.loads(line)


def _key(message: dict[str, Any]) -> Key:
    return Key(
        message["packet"],
        message["kind"],
        message.get("api"),
        message.get("version"),
        message.get("correlation_id"),
    )


# -- tshark


def shown_of(capture: Path, script: Path, *options: str, errors: list[str]) -> Iterator[Shown]:
    """Yield the messages in tshark's output, and add its complaints about Lua to `errors`."""
    command = ["tshark", "-X", f"lua_script:{script}", "-r", str(capture), "-T", "pdml"]
    command += ["-o", "kshark.credentials:TRUE", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _, element in ET.iterparse(process.stdout):
            if element.tag == "packet":
                yield from _messages(element, errors)
                element.clear()
        errors += [line for line in process.stderr.read().decode().splitlines() if "Lua" in line]


def _messages(packet: ET.Element, errors: list[str]) -> Iterator[Shown]:
    number = 0
    for proto in packet.iter("proto"):
        name = proto.get("name")
        if name == "frame":
            number = next(int(item.get("show", "")) for item in proto if item.get("name") == "frame.number")
        elif name == "_ws.lua.error":
            errors.append(f"packet {number}: {proto.get('showname')}")
        elif name == "kshark" and not any(item.get("name") == "kshark.skipped" for item in proto):
            yield _message(number, proto)


def _message(packet: int, proto: ET.Element) -> Shown:
    own = {}
    for item in proto:
        name = item.get("name", "").removeprefix("kshark.")
        if name in _HEADER:
            own[name] = item
    kind = "request" if "request" in own else "response"
    shown = {name: item.get("show", "") for name, item in own.items()}
    correlation_id = int(shown["correlation_id"]) if "correlation_id" in shown else None
    version = int(shown["api_version"]) if "api_version" in shown else None
    api = shown.get("api")
    if api is not None and api.startswith("API "):
        api = None
    return Shown(
        Key(packet, kind, api, version, correlation_id),
        _text(own["client_id"]) if "client_id" in own else None,
        int(shown["request_in"]) if "request_in" in shown else None,
        shown.get("latency"),
        int(shown["len"]),
        _struct(proto),
        proto.get("showname", ""),
    )


def _text(item: ET.Element) -> str:
    return bytes.fromhex(item.get("value", "")).decode("utf-8", "backslashreplace")


def _struct(parent: ET.Element) -> dict[str, Any]:
    values: dict[str, Any] = {}
    tags: dict[str, Any] = {}
    header = parent.tag == "proto"
    for item in parent:
        name = item.get("name", "")
        if header and name == "kshark.null" and item.get("show") == "client_id":
            continue
        header = header and name.removeprefix("kshark.") in _HEADER
        if name.removeprefix("kshark.") in _HEADER or name.startswith("_ws."):
            continue
        if name == "kshark.tag":
            tags[item.get("showname", "").partition("]")[0][1:]] = Raw(item.get("show", ""), item.get("value", ""))
        elif name.endswith(".struct"):
            values[_name(item)] = _struct(item)
        elif name:
            values[_name(item)] = _value(item)
    if tags:
        values["_tagged"] = tags
    return values


def _name(item: ET.Element) -> str:
    if item.get("name") == "kshark.null":
        return item.get("show", "")
    return item.get("showname", "").partition(":")[0].removesuffix(" [truncated]")


def _value(item: ET.Element) -> Any:
    name = item.get("name", "")
    if name == "kshark.null":
        return None
    if name.endswith(".count") and name not in ("kshark.count", "kshark.batch.count"):
        return [
            _struct(inner) if inner.get("name", "").endswith(".entry") else _value(inner)
            for inner in item
            if not inner.get("name", "").startswith("_ws.") and not _is_unread(inner)
        ]
    batches = tuple(_struct(inner) for inner in item if inner.get("name") == "kshark.batch")
    return Raw(item.get("show", ""), item.get("value", ""), batches)


# -- the comparison


def _compare_message(shown: Shown, message: dict[str, Any], result: Comparison) -> None:
    where = f"packet {shown.key.packet} {shown.key.api} v{shown.key.version} {shown.key.kind}"
    result.fields += 1
    if shown.size != message["size"]:
        result.different.append(f"{where}: size {shown.size}, {message['size']}")
    if shown.key.kind == "request":
        result.fields += 1
        if shown.client_id != message.get("client_id"):
            result.different.append(f"{where}: client id {shown.client_id!r}, {message.get('client_id')!r}")
    else:
        result.fields += 2
        latency = message.get("latency_ns")
        seconds = None if latency is None else f"{latency // 10**9}.{latency % 10**9:09}"
        if shown.request_packet != message.get("request_packet"):
            result.different.append(f"{where}: request in {shown.request_packet}, {message.get('request_packet')}")
        if shown.latency != seconds:
            result.different.append(f"{where}: latency {shown.latency}, {seconds}")
    body = message.get("body")
    # Of an unknown version kshark reads what fits the nearest known one; the dissector guesses nothing.
    if body is not None and not ("VERSION_UNKNOWN" in message.get("weird", ()) and not shown.body):
        _compare_struct(shown.body, body, where, result)


def _compare_struct(shown: Any, body: dict[str, Any], where: str, result: Comparison) -> None:
    if not isinstance(shown, dict):
        result.different.append(f"{where}: no struct")
        return
    expected = {name: value for name, value in body.items() if not name.endswith("_decoded")}
    if list(shown) != list(expected):
        result.different.append(f"{where}: fields {list(shown)}, {list(expected)}")
    for name, value in expected.items():
        if name in shown:
            _compare_value(shown[name], value, f"{where}.{name}", result)


def _compare_value(shown: Any, value: Any, where: str, result: Comparison) -> None:
    if isinstance(value, list):
        if not isinstance(shown, list) or len(shown) != len(value):
            result.different.append(f"{where}: elements {shown}, {value}")
            return
        for index, (left, right) in enumerate(zip(shown, value, strict=True)):
            _compare_value(left, right, f"{where}[{index}]", result)
    elif isinstance(value, dict) and "size" in value and isinstance(shown, Raw):
        _compare_records(shown, value, where, result)
    elif isinstance(value, dict):
        _compare_struct(shown, value, where, result)
    else:
        result.fields += 1
        if not _is_equal(shown, value):
            result.different.append(f"{where}: {shown!r}, {value!r}")


def _compare_records(shown: Raw, value: dict[str, Any], where: str, result: Comparison) -> None:
    """Compare the size of records, and the headers of batches with magic 2 up to the first other one."""
    result.fields += 1
    if len(shown.value) // 2 != value["size"]:
        result.different.append(f"{where}: {len(shown.value) // 2} bytes, {value['size']}")
    if where.endswith(".unaligned_records"):
        return  # they may begin inside a batch: the dissector shows bytes
    batches = list(takewhile(lambda batch: batch["magic"] == 2, value.get("batches", ())))
    for index, (left, right) in enumerate(zip_longest(shown.batches[: len(batches)], batches)):
        for name in _BATCH:
            result.fields += 1
            size = right["size"] - 12 if name == "batch_length" else right[name]
            if left is None or not _is_equal(left[name], size):
                result.different.append(f"{where}.batches[{index}].{name}: {left and left[name]}, {size}")


def _is_equal(shown: Any, value: Any) -> bool:
    if value is None or not isinstance(shown, Raw):
        return shown is None and value is None
    raw = bytes.fromhex(shown.value)
    if isinstance(value, bool):
        return (raw != b"\0") == value
    if isinstance(value, int):
        return int(shown.show) == value and int.from_bytes(raw, "big", signed=value < 0) == value
    if isinstance(value, float):
        return bool(struct.unpack(">d", raw)[0] == value)
    return value in (raw.decode("utf-8", "backslashreplace"), shown.show) or _bytes(value) == raw


def _bytes(text: str) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None


def _is_unread(item: ET.Element) -> bool:
    """True for an element of which no byte could be read."""
    return item.get("name", "").endswith(".entry") and len(item) == 0


def write_script(folder: Path) -> Path:
    """Write the dissector of Kafka's APIs into a folder; return the file."""
    path = folder / "kafka_share.lua"
    path.write_text("".join(f"{line}\n" for line in lua_script(kafka_registry())), "utf-8")
    return path


def main(captures: list[str]) -> None:
    """Print the figures of captures."""
    total = Comparison()
    with tempfile.TemporaryDirectory() as folder:
        script = write_script(Path(folder))
        for capture in captures:
            result = compare(Path(capture), script)
            print(f"{Path(capture).name}: {figures(result)}", flush=True)
            for text in (*result.different, *map(str, result.only_kshark), *map(str, result.only_tshark)):
                print(f"  {text}")
            for name in ("different", "only_kshark", "only_tshark", "errors"):
                getattr(total, name).extend(getattr(result, name))
            total.messages += result.messages
            total.fields += result.fields
    print(f"all: {figures(total)}")


def figures(result: Comparison) -> str:
    """Return the figures of a comparison, in one line."""
    return (
        f"{result.messages:,} messages, {result.fields:,} fields, {len(result.different)} different; "
        f"{len(result.only_kshark)} messages only in kshark, {len(result.only_tshark)} only in tshark, "
        f"{len(result.errors)} Lua errors"
    )


if __name__ == "__main__":
    main(sys.argv[1:])

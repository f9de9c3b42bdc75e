"""What tshark shows of Kafka's messages, leaf by leaf as bytes on the wire, and what kshark read of the same message.

A leaf is a field that holds no others: its bytes with their own length in front. Counts of arrays, markers of null
structs, tag sections and records are not leaves: tshark shows some of them, as text."""

from __future__ import annotations

import struct
import subprocess
import xml.etree.ElementTree as ET
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import UNSET

from kshark.codec import plain
from kshark.codec.primitives import uuid_bytes
from kshark.codec.shapes import Shape, Slot, shape_of
from kshark.codec.writer import uvarint_bytes
from kshark.face import pages
from kshark.model import Exchange, Message
from kshark.pipeline import Options
from kshark.registry import Registry
from kshark.schema import FIXED

REGISTRY = Registry(installed=False)


class Leaf(NamedTuple):
    name: str
    data: bytes


class Pair(NamedTuple):
    """One message as both read it; `packet` is where it ends."""

    api: str
    version: int
    direction: str
    packet: int
    ours: list[Leaf]
    theirs: list[Leaf]

    @property
    def agrees(self) -> bool:
        return [leaf.data for leaf in self.ours] == [leaf.data for leaf in self.theirs]


def pairs_of(capture: Path) -> Iterator[Pair]:
    """Every message that kshark read without fault and that tshark takes for the same api and version."""
    messages: dict[tuple[int, str, int], deque[Message]] = defaultdict(deque)
    for message in _messages(capture):
        messages[message.packet, message.kind, int(message.correlation_id)].append(message)  # type: ignore[arg-type]
    ports = {message.broker.rpartition(":")[2] for queue in messages.values() for message in queue}
    for packet, tree in _dissected(capture, sorted(ports)):
        shown = {field.get("name", ""): field.get("show", "") for field in tree.iter("field")}
        direction = "request" if "kafka.request.version" in shown else "response"
        queue = messages.get((packet, direction, int(shown.get("kafka.correlation_id") or 0)))
        if queue and _is_same(message := queue.popleft(), direction, shown):
            ours, theirs = list(_ours(message)), list(_theirs(tree, direction))
            yield Pair(str(message.api), int(message.version), direction, packet, ours, theirs)  # type: ignore[arg-type]


def _is_same(message: Message, direction: str, shown: dict[str, str]) -> bool:
    """tshark looks for an answer's request by correlation id alone, over all connections of the same ends."""
    key, version = f"kafka.{direction}_key", f"kafka.{direction}.version"
    clean = message.weird is UNSET or set(message.weird) <= {"RESYNC", "LEGACY_MAGIC", "SASL_SEQUENCE"}
    return clean and (shown.get(key), shown.get(version)) == (str(message.api_key), str(message.version))


# -- kshark


def _messages(capture: Path) -> Iterator[Message]:
    for event in (event for page in pages([capture], Options(records=False, secrets=True)) for event in page):
        if isinstance(event, Exchange):
            yield from (
                message
                for message in (event.request, event.response)
                if message is not None and message.body is not UNSET
            )


def _ours(message: Message) -> Iterator[Leaf]:
    api = REGISTRY.api(int(message.api_key))  # type: ignore[arg-type]
    assert api is not None
    layout = api.request if message.kind == "request" else api.response
    yield from _struct(shape_of(layout, int(message.version)), plain(message.body))  # type: ignore[arg-type]


def _struct(shape: Shape, value: dict[str, Any]) -> Iterator[Leaf]:
    for slot in shape.slots:
        yield from _value(slot, value[slot.name])
    for slot in shape.tags.values():
        if slot.name in value:
            yield from _value(slot, value[slot.name])


def _value(slot: Slot, value: Any) -> Iterator[Leaf]:
    if slot.shape is not None:
        yield from _struct(slot.shape, value) if value is not None else ()
    elif slot.element is not None:
        for item in value or ():
            yield from _value(slot.element, item)
    elif slot.type in FIXED:
        raw = uuid_bytes(value) if slot.type == "uuid" else struct.pack(">" + FIXED[slot.type][0], value)
        yield Leaf(slot.name, raw)
    elif slot.type != "records":
        content = value.encode() if isinstance(value, str) else value
        length = -1 if content is None else len(content)
        if slot.compact:
            yield Leaf(slot.name, uvarint_bytes(length + 1) + (content or b""))
        else:
            yield Leaf(slot.name, struct.pack(">h" if slot.type == "string" else ">i", length) + (content or b""))


# -- tshark


def _dissected(capture: Path, ports: Iterable[str]) -> Iterator[tuple[int, ET.Element]]:
    command = ["tshark", "-r", str(capture), "-Y", "kafka", "-T", "pdml", "-J", "kafka"]
    command += [part for port in ports for part in ("-d", f"tcp.port=={port},kafka")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        for _, element in ET.iterparse(running.stdout):
            if element.tag == "packet":
                number = element.find("proto[@name='geninfo']/field[@name='num']")
                assert number is not None
                for tree in element.findall("proto[@name='kafka']"):
                    yield int(number.get("show", "")), tree
                element.clear()


def _theirs(tree: ET.Element, direction: str) -> list[Leaf]:
    """The leaves behind the header."""
    leaves = list(_leaves(tree))
    names = [leaf.name for leaf in leaves]
    behind = names.index("kafka.correlation_id") + 1
    if direction == "request" and names[behind : behind + 1] == ["kafka.client_id"]:
        behind += 1
    return leaves[behind:]


def _leaves(tree: ET.Element) -> Iterator[Leaf]:
    for field in tree:
        name, value = field.get("name", ""), field.get("value", "")
        if len(field):
            if not field.get("show", "").startswith(("Record Batch", "Message")):
                yield from _leaves(field)
        elif name.startswith("kafka.") and field.get("size") != "0":
            yield Leaf(name, bytes.fromhex(value) if len(value) % 2 == 0 else b"")

"""Frames of one connection, requests and answers: what the stages behind framing say of them, by the fast path and by
the exact one."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import numpy as np

from kshark.anomaly import CATALOGUE
from kshark.codec import compile_writer
from kshark.codec.shapes import shape_of
from kshark.model import Closed, Ends, Event, Flow, Frames, Message, Weird
from kshark.pipeline import JUDGED, Back, Front, Options
from kshark.registry import kafka_registry
from tests.fuzz.kind import Broken, Kind, Seen, difference, shorter, shorter_bytes
from tests.fuzz.mutating import mutated
from tests.fuzz.values import value_of
from tests.packets import START_NS, batch
from tests.property.event_values import read_first
from tests.property.event_values import value_of as event_value
from tests.property.mangled import packets_of
from tests.property.test_output import printed
from tests.shared import CAPTURES

#: Frames of one case, at most.
MANY: Final = 60
#: Captures whose frames are damaged.
FROM: Final = sorted(path for path in CAPTURES.glob("*.pcap*") if path.stat().st_size < 600_000)
#: What a consumer may ask for. Records first: the longest output.
ASKED: Final = (
    Options(),
    Options(embedded=True),
    Options(payload=False),
    Options(records=False, embedded=True),
    Options(records="headers", bodies=frozenset((0, 1, 78))),
    JUDGED,
)
#: What JSON may make of a byte where no records are decompressed, and may take for a message in any case.
JSON_BYTES: Final = 1_000
JSON_MESSAGE: Final = 20_000
#: Events that a frame may cause: itself, its exchange, those that it ends.
EVENTS: Final = 6
#: Of so many events one is printed in every form.
PRINTED: Final = 200
#: Requests made of random values, with their answers; each is damaged in other ways every time.
BODIES: Final = 30_000
REGISTRY: Final = kafka_registry()
VERSIONS: Final = [
    (key, version)
    for key in REGISTRY.names()
    for api in [REGISTRY.api(key)]
    if api is not None
    for version in range(api.versions.low, api.versions.high + 1)
]


class Frame(msgspec.Struct):
    """Without its length prefix."""

    by_client: bool
    data: bytes


class Talk(msgspec.Struct):
    """What goes over one connection, and which of ASKED the consumer asks for."""

    frames: list[Frame]
    asked: int


@cache
def talks(capture: Path) -> tuple[tuple[Frame, ...], ...]:
    """The frames of a capture's connections."""
    found: dict[int, list[Frame]] = {}
    for events in Front(Options(), REGISTRY).batches([batch(packets_of(capture))]):
        for item in events:
            if isinstance(item, Frames):
                for stream, start, end in zip(
                    item.stream.tolist(), item.start.tolist(), item.end.tolist(), strict=True
                ):
                    by_client = item.by_client[stream]
                    if by_client is not None:
                        found.setdefault(item.flows[stream].id, []).append(
                            Frame(by_client, bytes(item.buffer[start:end]))
                        )
    return tuple(map(tuple, found.values()))


class Connections(Kind[Talk]):
    name = "frames"
    case = Talk
    share = 3

    def make(self, random: Random) -> Talk:
        frames = (
            _captured(random)
            if random.random() < 0.5
            else list(chain.from_iterable(_exchange(random, n) for n in range(MANY // 2)))
        )
        often, others = random.choice((0.05, 0.3, 1)), [frame.data for frame in frames]
        damaged = [
            Frame(it.by_client, mutated(it.data, random, others)) if random.random() < often else it for it in frames
        ]
        return Talk(damaged, random.randrange(len(ASKED)))

    def check(self, case: Talk) -> Seen:
        fast, exact = _said(case, exact=False), _said(case, exact=True)
        told, told_exactly = [*map(event_value, fast)], [*map(event_value, exact)]
        if told != told_exactly:
            raise Broken("the fast path and the exact one differ", difference(told, told_exactly))
        if len(fast) > EVENTS * len(case.frames) + 1:
            raise Broken("more events than frames can cause", len(fast))
        codes: Counter[str] = Counter()
        for at, event in enumerate(fast):
            codes.update(_codes(event))
            if isinstance(event, Message):
                _assert_bounded(event, ASKED[case.asked])
                if at % PRINTED == 0:
                    printed(event)
        if unknown := codes.keys() - CATALOGUE.keys():
            raise Broken("a code is not in the catalogue", unknown)
        return Seen(len(case.frames), sum(len(it.data) for it in case.frames), codes)

    def smaller(self, case: Talk) -> Iterator[Talk]:
        for frames in shorter(case.frames):
            yield Talk(frames, case.asked)
        if len(case.frames) <= 4:
            for at, it in enumerate(case.frames):
                for data in shorter_bytes(it.data):
                    yield Talk([*case.frames[:at], Frame(it.by_client, data), *case.frames[at + 1 :]], case.asked)


def _captured(random: Random) -> list[Frame]:
    """A part of a connection of a capture, as it was."""
    frames = random.choice(random.choice([found for found in map(talks, random.sample(FROM, 3)) if found]))
    at = random.randrange(max(1, len(frames) - MANY))
    return [*frames[at : at + MANY]]


def _exchange(random: Random, number: int) -> Iterator[Frame]:
    """A request of any API in any version with values by chance, and its answer; now and then in a version that nobody
    knows."""
    (key, version), asked, answered = _bodies(random.randrange(BODIES))
    api: Any = REGISTRY.api(key)
    client_id = random.choice((b"\xff\xff", b"\0\0", b"\0\3abc", b"\0\2\xff\x00"))
    header = (
        struct.pack(">hhi", key, version, number)
        if random.random() < 0.97
        else struct.pack(">hhi", key, version + 90, number)
    )
    header += (
        (client_id + b"\0"[: api.request_header_version(version) - 1]) if api.request_header_version(version) else b""
    )
    yield Frame(True, header + asked)
    yield Frame(False, struct.pack(">i", number) + b"\0"[: api.response_header_version(version)] + answered)


@cache
def _bodies(number: int) -> tuple[tuple[int, int], bytes, bytes]:
    """An API and a version, with values for its request and its answer: they take longer to make than to read."""
    random = Random(number)
    key, version = random.choice(VERSIONS)
    api: Any = REGISTRY.api(key)
    asked, answered = (
        compile_writer(it, version)(value_of(shape_of(it, version), random)) for it in (api.request, api.response)
    )
    return (key, version), asked, answered


def _said(case: Talk, *, exact: bool) -> list[Event]:
    back = Back(replace(ASKED[case.asked], exact=exact), REGISTRY)
    flow = Flow(0, Ends("10.0.0.1:50000", "10.0.0.9:9092"), 1, START_NS, 0, "kafka", 0, begun=[True, True])
    end = len(case.frames) + 1
    with read_first(0):  # few frames of a case have the same layout: compiled readers read all
        page = back.feed([_columns(case.frames, flow), Closed(flow, end, START_NS + end, "fin", 0)])
        return [*chain.from_iterable(page)]


def _columns(frames: list[Frame], flow: Flow) -> Frames:
    """One packet for each frame."""
    lengths = np.array([len(frame.data) for frame in frames], np.int64)
    ends = lengths.cumsum()
    packet = np.arange(1, len(frames) + 1, dtype=np.int64)
    streams = np.array([not frame.by_client for frame in frames], np.int64)
    return Frames(
        b"".join(frame.data for frame in frames),
        [flow, flow],
        [True, False],
        streams,
        ends - lengths,
        ends,
        packet,
        packet + START_NS,
        packet,
        packet + START_NS,
        np.full(len(frames), -1, np.int64),
        np.zeros(len(frames), bool),
        np.zeros(len(frames), np.int64),
        np.zeros(len(frames), np.int64),
        np.zeros(len(frames), bool),
    )


def _codes(event: Event) -> tuple[str, ...]:
    if isinstance(event, Weird):
        return (event.code,)
    return tuple(event.weird or ()) if isinstance(event, Message) else ()


def _assert_bounded(message: Message, asked: Options) -> None:
    if asked.records in (False, "headers") and not asked.embedded:
        size = len(msgspec.json.encode(message))
        if size > JSON_MESSAGE + JSON_BYTES * message.size:
            raise Broken("a message is much more than its bytes", f"{size} bytes of JSON of {message.size}")

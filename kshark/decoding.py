"""One Decoder for each (api key, version) met: header versions, and bodies read fast where they are whole, exactly where they are not.

The compiled reader runs first and is trusted only when it ends where the frame ends; all else goes to the interpreter, which keeps what
was readable and names the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from msgspec import UNSET

from kshark.codec import compile_reader, interpret
from kshark.records import RecordsReader
from kshark.registry import Registry
from kshark.schema import Api, Layout

_INT16: Final = Struct(">h").unpack_from

#: A body, the catalogue codes that touch it (None: a clean read), and where.
Read = tuple[Any, list[str] | None, str]
BodyReader = Callable[[bytes, int, int], Read]


@dataclass(slots=True, eq=False)
class Decoder:
    """How requests and answers of one (api key, version) are read. `weird` touches every such message."""

    name: Any
    weird: str | None
    request_header: int
    response_header: int
    read_request: BodyReader
    read_response: BodyReader
    one_way: tuple[str, int] | None = None
    then_raw: bool = False
    software: tuple[str, str] | None = None


class Decoders:
    """Finds decoders; each is made once, when its first message comes.

    `bodies` limits which APIs' bodies are read at all (None: every one); the others' `body` is absent.
    """

    def __init__(self, registry: Registry, records: RecordsReader, bodies: frozenset[int] | None = None) -> None:
        self._registry = registry
        self._records = records
        self._bodies = bodies
        self._made: dict[tuple[int, int], Decoder] = {}
        self.knows = registry.knows

    def get(self, key: int, version: int) -> Decoder:
        made = self._made.get((key, version))
        if made is None:
            made = self._made[key, version] = self._make(key, version)
        return made

    def _make(self, key: int, version: int) -> Decoder:
        api = self._registry.api(key)
        if api is None:
            name = self._registry.name(key)
            code = "UNKNOWN_API" if name is None else "NO_DISSECTOR"
            return Decoder(UNSET if name is None else name, code, 1, 0, _unread, _unread)
        known = api.versions.nearest(version)
        needed = api.one_way is not None or version in api.then_raw  # the stages look into these themselves
        wanted = self._bodies is None or key in self._bodies or needed
        return Decoder(
            api.name,
            None if known == version else "VERSION_UNKNOWN",
            api.request_header_version(known),
            api.response_header_version(known),
            _as_far_as_it_fits(self._reader(api.request, known, 0), version, known) if wanted else _skipped,
            self._response_reader(api, version, known) if wanted else _skipped,
            api.one_way,
            version in api.then_raw,
            api.software,
        )

    def _response_reader(self, api: Api, version: int, known: int) -> BodyReader:
        header = api.response_header_version(known)
        read = _as_far_as_it_fits(self._reader(api.response, known, header), version, known)
        if api.fallback is None:
            return read
        error, layout_version = api.fallback
        other = self._reader(api.response, layout_version, header)

        def read_or_fall_back(buffer: bytes, at: int, end: int) -> Read:
            fell_back = end - at >= 2 and _INT16(buffer, at)[0] == error
            return (other if fell_back else read)(buffer, at, end)

        return read_or_fall_back

    def _reader(self, layout: Layout, version: int, header: int) -> BodyReader:
        compiled = compile_reader(layout, version, records=self._records)
        records = self._records

        def exactly(buffer: bytes, at: int, end: int) -> Read:
            records.discard()
            reading = interpret(layout, version, buffer, at, end, records=records)
            codes = list(dict.fromkeys(fault.code for fault in reading.faults))
            detail = "; ".join(f"{fault.code} at byte {fault.offset}, field {fault.path or '(none)'}" for fault in reading.faults[:3])
            return reading.body, codes or None, detail

        def read(buffer: bytes, at: int, end: int) -> Read:
            try:
                body, stop = compiled(buffer, at, end)
                if stop == end:
                    return body, None, ""
            except Exception:  # whatever the compiled reader stumbles over, the exact one names
                pass
            return exactly(buffer, at, end)

        if not header:
            return read

        def read_behind_tags(buffer: bytes, at: int, end: int) -> Read:
            if at < end and buffer[at] == 0:
                return read(buffer, at + 1, end)
            behind = skip_tags(buffer, at, end)
            if behind > end:
                return None, ["LENGTH_INVALID"], "header"
            return read(buffer, behind, end)

        return read_behind_tags


def _as_far_as_it_fits(read: BodyReader, version: int, known: int) -> BodyReader:
    """The reader itself; of a version that nobody knows one whose misfits are no faults of the bytes: they are told, not counted."""
    if version == known:
        return read

    def read_nearest(buffer: bytes, at: int, end: int) -> Read:
        body, _, detail = read(buffer, at, end)
        return body, None, f"version {version} read as {known}" + (f": {detail}" if detail else "")

    return read_nearest


def _unread(buffer: bytes, at: int, end: int) -> Read:
    """A body nobody can read."""
    return None, None, ""


def _skipped(buffer: bytes, at: int, end: int) -> Read:
    """A body nobody asked for."""
    return UNSET, None, ""


def skip_tags(buffer: bytes, at: int, end: int) -> int:
    """The position behind a tagged-field section that begins at `at`; beyond `end` where it does not fit (KIP-482)."""
    count, at = _uvarint(buffer, at, end)
    for _ in range(count):
        if at >= end:
            return end + 1
        _, at = _uvarint(buffer, at, end)
        size, at = _uvarint(buffer, at, end)
        at += size
    return at


def _uvarint(buffer: bytes, at: int, end: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes, and the position behind it; beyond `end` where it does not fit."""
    value = shift = 0
    while at < end and shift <= 28:
        byte = buffer[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return 0, end + 1

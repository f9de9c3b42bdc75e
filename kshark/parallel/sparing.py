"""Bodies and records that are read only where they may teach names of topic ids."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cache, partial

from msgspec import UNSET

from kshark.decoding import Body, Decoder, Decoders
from kshark.model import Frames
from kshark.names import has_pairs
from kshark.places import Log, Place, Whole, structures
from kshark.records import Opening, RecordsField, RecordsReader
from kshark.registry import Registry
from kshark.schema import Layout


class Hits:
    """Frames in which a needle stands: a search through all bytes of a batch costs 0.2 ms a MB and needle, reading all bodies 20."""

    def __init__(self, needles: Iterable[bytes]) -> None:
        self._needles = set(needles)
        self._buffer = b""
        self._found: list[int] = []
        self._start = self._end = 0

    def add(self, needle: bytes) -> None:
        """Looks for it too, from the next part on."""
        self._needles.add(needle)
        self._found = _places(self._buffer, self._needles)

    def parts(self, frames: Frames) -> Iterator[Frames]:
        """The frames in parts of which each ends with a hit, but for the last one."""
        if frames.buffer is not self._buffer:
            self._buffer = frames.buffer
            self._found = _places(self._buffer, self._needles)
        at = 0
        while (hit := self._first(frames, at)) is not None:
            self._start, self._end = int(frames.start[hit]), int(frames.end[hit])
            yield frames.rows(slice(at, hit + 1))
            at = hit + 1
        self._start = self._end = 0
        if at < len(frames):
            yield frames.rows(slice(at, None))

    def near(self, position: int) -> bool:
        """Whether that is in the hit with which the part ends."""
        return self._start <= position < self._end

    def _first(self, frames: Frames, at: int) -> int | None:
        """The first row from `at` on that is a hit."""
        if not self._found:
            return None
        bounds = zip(frames.start[at:].tolist(), frames.end[at:].tolist(), strict=True)
        return next((row for row, (start, end) in enumerate(bounds, at) if self._stands_in(start, end)), None)

    def _stands_in(self, start: int, end: int) -> bool:
        first = bisect_left(self._found, start)
        return first < len(self._found) and self._found[first] < end


def _places(buffer: bytes, needles: Iterable[bytes]) -> list[int]:
    found = []
    for needle in needles:
        at = buffer.find(needle)
        while at >= 0:
            found.append(at)
            at = buffer.find(needle, at + 1)
    return sorted(found)


class SparingReader(RecordsReader):
    """Opens records where there are hits; elsewhere it is as if nobody had asked for them."""

    def __init__(self, hits: Hits, *, opened: Opening, payload: bool) -> None:
        super().__init__(opened=opened, payload=payload)
        self._hits = hits

    def __call__(self, buffer: bytes, start: int, end: int, aligned: bool = True) -> RecordsField:
        return super().__call__(buffer, start, end, aligned) if self._hits.near(start) else RecordsField(end - start)


class SparingDecoders(Decoders):
    """Reads a body where it may teach, or the stages look into it themselves; of records' APIs where there are hits.

    Whether a body fits to its end can still be asked of each.
    """

    def __init__(self, registry: Registry, records: RecordsReader, hits: Hits) -> None:
        super().__init__(registry, records)
        self._hits = hits

    def _make(self, key: int, version: int) -> Decoder:
        decoder = super()._make(key, version)
        if self._registry.api(key) is None or self._tells(key):
            return decoder
        if decoder.one_way is None:
            decoder.request = self._sparing(key, "request", decoder.request)
        if not decoder.then_raw:
            decoder.response = self._sparing(key, "response", decoder.response)
        return decoder

    def _body(self, layout: Layout, version: int) -> Body:
        """Compiled when it is read for the first time, 1 ms; most never are."""
        make = cache(partial(super()._body, layout, version))
        return Body(lambda buffer, at, end: make().read(buffer, at, end), lambda buffer, at, end: make().exactly(buffer, at, end))

    def _tells(self, key: int) -> bool:
        """Whether bodies of that API pair ids and names, or hold messages or structures that do."""
        for kind in ("request", "response"):
            api = self._registry.api(key)
            if api is not None and has_pairs((api.request if kind == "request" else api.response).root):
                return True
            for place in self._registry.places(key, kind):
                if any(isinstance(holding, Whole) for holding in place.holds.values()) or (not _logs(place) and _pairs(place)):
                    return True
        return False

    def _sparing(self, key: int, kind: str, body: Body) -> Body:
        if any(map(_logs, self._registry.places(key, kind))):
            near = self._hits.near
            return Body(lambda buffer, at, end: body.read(buffer, at, end) if near(at) else (UNSET, max(at, end)), body.exactly)
        return Body(lambda buffer, at, end: (UNSET, max(at, end)), body.exactly)


def teaching_topics(registry: Registry) -> frozenset[str]:
    """Topics whose records pair ids and names."""
    inside = [place for key in registry.names() for kind in ("request", "response") for place in registry.places(key, kind)]
    logs = [(topic, holding) for place in inside for topic, holding in place.holds.items() if isinstance(holding, Log)]
    return frozenset(topic for topic, log in logs if _pairs(Place("", {topic: log})))


def _logs(place: Place) -> bool:
    return any(isinstance(holding, Log) for holding in place.holds.values())


def _pairs(place: Place) -> bool:
    return any(has_pairs(root) for _, layout in structures((place,)) for root in (layout.root, *layout.older.values()))

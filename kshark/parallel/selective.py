"""Decoders for looking ahead: bodies and records are read only where they may tell the names of topic ids."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from typing import Any

from msgspec import UNSET

from kshark.exchange.decoding import Body, Decoder, Decoders, Read, beginning
from kshark.exchange.owner import owner_of
from kshark.model import Message
from kshark.names import has_pairs
from kshark.places import Log, Place, Whole, structures
from kshark.records import RecordsField, RecordsReader
from kshark.registry import Registry
from kshark.schema import Layout


class Unopened(RecordsField):
    """Records that may be opened later: where they are in the buffer."""

    buffer: bytes = b""
    start: int = 0
    end: int = 0
    aligned: bool = True


class LazyReader(RecordsReader):
    """Opens no records until `open` is called for a message."""

    def __call__(
        self, buffer: bytes, start: int, end: int, aligned: bool = True, *, spanned: bool = False
    ) -> RecordsField:
        return Unopened(end - start, UNSET, UNSET, UNSET, buffer, start, end, aligned)

    def open(self, message: Message, fields: Iterable[Any]) -> None:
        """Opens these records of a message, as far as the run's options ask for records at all."""
        for field in fields:
            if isinstance(field, Unopened):
                opened = super().__call__(field.buffer, field.start, field.end, field.aligned)
                field.batches, field.partial_bytes = opened.batches, opened.partial_bytes
        self.claim(message)
        self.fill()


class SelectiveDecoders(Decoders):
    """Reads a body where it, or records in it, may pair a topic id with its name, or where the stages look into it
    themselves.

    How some answers' bytes are read depends on fields of their request, and whose an answer is does: of such requests
    only these fields are kept, as a dict. `bodies`: those that others read; `names`: whether topic names are wanted;
    without, no body is read for them."""

    def __init__(
        self, registry: Registry, records: RecordsReader, bodies: frozenset[int] | None = None, *, names: bool
    ) -> None:
        super().__init__(registry, records, bodies)
        self._names = names

    def _make(self, key: int, version: int) -> Decoder:
        decoder, api = super()._make(key, version), self._registry.api(key)
        if api is None or decoder.unasked:
            return decoder
        asked = _asked_by_answers(self._registry.places(key, "response")) if self._names else ()
        if asked:
            _keep_only((*asked, *decoder.owner), decoder)
        elif decoder.one_way is None and not self._is_read(key, "request"):
            if decoder.owner:
                head = beginning(api, api.versions.nearest(version), decoder.owner)
                decoder.request = Body(head, decoder.request.exactly)
                _keep_only(decoder.owner, decoder)
            else:
                decoder.request = _passed_over(decoder.request)
        if not decoder.telling and not self._is_read(key, "response"):
            decoder.response = _passed_over(decoder.response)
        return decoder

    def _body(self, layout: Layout, version: int, *, spanned: bool = False) -> Body:
        """Compiled when it is read for the first time, 1 ms; most never are."""
        made = cache(partial(super()._body, layout, version, spanned=spanned))

        def first(buffer: bytes, at: int, end: int) -> tuple[Any, int]:
            body.read = made().read
            return body.read(buffer, at, end)

        body = Body(first, lambda buffer, at, end: made().exactly(buffer, at, end))
        return body

    def _is_read(self, key: int, kind: str) -> bool:
        """Whether a body may pair ids with names: in its own fields, in structures inside its bytes, or in its
        records."""
        api = self._registry.api(key)
        if api is None or not self._names:
            return False
        if has_pairs((api.request if kind == "request" else api.response).root):
            return True
        return any(_is_whole(place) or _logs(place) or _pairs(place) for place in self._registry.places(key, kind))


def records_of(registry: Registry, message: Message) -> list[Place]:
    """The places of such a message's body that hold records."""
    key = message.api_key
    return [place for place in registry.places(key, message.kind) if _logs(place)] if isinstance(key, int) else []


def _passed_over(body: Body) -> Body:
    """The body left unread; `exactly` still tells whether it is well formed."""
    return Body(_not_read, body.exactly)


def _not_read(_: bytes, at: int, end: int) -> tuple[Any, int]:
    return UNSET, (at if at > end else end)


def _asked_by_answers(places: Iterable[Place]) -> tuple[str, ...]:
    """The fields by which an answer's bytes are understood; its request may hold them. What records hold depends on
    their topic only."""
    names: list[str] = []
    for place in places:
        if not _logs(place):
            names += [
                *place.by,
                *place.call.values(),
                *(holding.of for holding in place.holds.values() if isinstance(holding, Whole)),
            ]
    return tuple(dict.fromkeys(names))


def _keep_only(names: tuple[str, ...], decoder: Decoder) -> None:
    """Of requests only these fields are kept."""
    body = decoder.request

    def kept(value: Any) -> Any:
        return {name: getattr(value, name) for name in names if getattr(value, name, UNSET) is not UNSET}

    def read(buffer: bytes, at: int, end: int) -> Any:
        value, stop = body.read(buffer, at, end)
        return kept(value), stop

    def exactly(buffer: bytes, at: int, end: int) -> Read:
        reading = body.exactly(buffer, at, end)
        return reading._replace(body=kept(reading.body))

    decoder.request = Body(read, exactly)
    decoder.whose = owner_of if decoder.owner else None


def _is_whole(place: Place) -> bool:
    return any(isinstance(holding, Whole) for holding in place.holds.values())


def _logs(place: Place) -> bool:
    return any(isinstance(holding, Log) for holding in place.holds.values())


def _pairs(place: Place) -> bool:
    return any(has_pairs(root) for _, layout in structures((place,)) for root in (layout.root, *layout.older.values()))

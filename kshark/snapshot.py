"""Snapshots: the engine's state between two items as bytes, which another process can load later.

data = save(engine, analyzer, rows)  # after the pages of an item
engine, analyzer, rows = load(data)  # continues as if nothing had happened

State comes from packets. Machinery is made from code and options (compiled readers, rules, dissectors). A snapshot
holds the state and the names of the machinery: `load` makes a new engine and finds the machinery there. Objects that
refer to each other are written one after the other, not one inside the other, so a long chain of references needs no
deep recursion.

A snapshot needs 60 bytes for an open connection and 400 for a share session with an open request, compressed (1 kB and
3 kB uncompressed). kshark.limits bounds their number, and the bytes that wait for more (HELD_BYTES, UNFINISHED_BYTES,
LATE_BYTES). With rows it needs 8 bytes more for each connection of the capture, open or not.

A snapshot is a pickle: a process that loads it runs any code in it. Load a snapshot only from a folder where no other
user can write."""

from __future__ import annotations

import copyreg
import io
import pickle
import zlib
from collections.abc import Iterator
from typing import Any, Final

from kshark import __version__
from kshark.analysis.rules import BOOK
from kshark.codec.shapes import Shape, Slot, shape_of
from kshark.errors import UsageError
from kshark.pipeline import Engine
from kshark.registry import Registry, kafka_registry

_MAGIC: Final = b"kshark snapshot "
_PROTOCOL: Final = 5
#: The zlib level. A state repeats itself, so a higher level gains little.
_EFFORT: Final = 1

#: The __hash__ of classes whose hash does not depend on attributes.
_BY_IDENTITY: Final[tuple[Any, ...]] = (object.__hash__, None)

#: The name of a piece of machinery.
_Name = tuple[Any, ...]
#: An object and its attributes: a dict, or with slots a pair of dicts.
_Filled = tuple[Any, Any]


def save(engine: Engine, *others: Any) -> bytes:
    """Return a snapshot of an engine, with its options, and of the objects that read its events. All pages must be read
    before."""
    stream = io.BytesIO()
    pickle.dump(engine.options, stream, _PROTOCOL)
    writer = _Writer(stream, _Machinery(engine))
    writer.write((engine, *others))
    return _head() + zlib.compress(stream.getbuffer(), _EFFORT)


def load(data: bytes, registry: Registry | None = None) -> tuple[Any, ...]:
    """Return the objects that were passed to `save`, in their state at that time. `registry` as for the Engine. Raise
    UsageError for a snapshot of another kshark version, or a damaged one."""
    head, line, rest = data.partition(b"\n")
    if head + line != _head():
        writer = head[len(_MAGIC) :].decode("utf-8", "replace") if head.startswith(_MAGIC) else "something else"
        raise UsageError(
            f"a snapshot of {writer} cannot be read by kshark {__version__}; start again, or use the version that "
            f"wrote it"
        )
    try:
        stream = io.BytesIO(zlib.decompress(rest))
    except zlib.error:
        raise UsageError("a damaged snapshot cannot be read; start again") from None
    engine = Engine(pickle.load(stream), registry)
    state: tuple[Any, ...] = _Reader(stream, _Machinery(engine)).read()
    return state


def _head() -> bytes:
    return _MAGIC + f"kshark {__version__}\n".encode()


class _Machinery:
    """The machinery of an engine, by names that are the same in every engine with the same options."""

    def __init__(self, engine: Engine) -> None:
        back = engine.back
        self._decoders, self._registry = back.decoders, engine.registry
        self._parts: dict[str, Any] = {
            "registry": engine.registry,
            "kafka": kafka_registry(),
            "decoders": back.decoders,
            "records": back.records,
            "book": BOOK,
        }

    def names(self) -> Iterator[tuple[Any, _Name]]:
        """Yield every piece that state may refer to, with its name."""
        for part, piece in self._parts.items():
            yield piece, (part,)
        for rule in BOOK.rules:
            yield rule, ("rule", rule.code)
            for index, check in enumerate(rule.checks):
                yield check, ("check", rule.code, index)
        for key, decoder in self._decoders.items():
            yield decoder, ("decoder", key)
            for kind in ("request", "response"):
                for index, piece in enumerate(self._registry.places(decoder.key, kind)):
                    yield piece, ("place", decoder.key, kind, index)
            for older, shapes in enumerate(self._shapes(key)):
                for index, shape in enumerate(shapes):
                    yield shape.make, ("class", key, older, index)

    def find(self, name: _Name) -> Any:
        match name:
            case ("rule", code):
                return BOOK.by_code[code]
            case ("check", code, index):
                return BOOK.by_code[code].checks[index]
            case ("decoder", key):
                return self._decoders[key]
            case ("place", key, kind, index):
                return self._registry.places(key, kind)[index]
            case ("class", key, older, index):
                return self._shapes(key)[older][index].make
        return self._parts[name[0]]

    def _shapes(self, key: int) -> list[list[Shape]]:
        """Return the shapes of a decoder's requests, and those in an older layout. Only requests wait."""
        decoder = self._decoders[key]
        api = self._registry.api(decoder.key)
        if api is None:
            return []
        nearest = api.versions.nearest(decoder.version)
        return [
            [*_below(shape_of(api.request, nearest, older))]
            for older in (False, True)[: 1 + (nearest in api.request.older)]
        ]


def _below(shape: Shape) -> Iterator[Shape]:
    """Yield a shape and the shapes inside it."""
    yield shape
    for slot in (*shape.slots, *shape.tags.values()):
        inner: Slot | None = slot
        while inner is not None:
            if inner.shape is not None:
                yield from _below(inner.shape)
            inner = inner.element


class _Writer(pickle.Pickler):
    """Write objects of kshark's own classes empty, and their attributes afterwards, one level of references after the
    other."""

    def __init__(self, stream: io.BytesIO, machinery: _Machinery) -> None:
        super().__init__(stream, _PROTOCOL)
        self._pieces = [*machinery.names()]
        self._names = {id(piece): name for piece, name in self._pieces}
        self._later: list[_Filled] = []

    def write(self, state: tuple[Any, ...]) -> None:
        self.dump(state)
        while self._later:
            level, self._later = self._later, []
            self.dump(level)
        self.dump([])

    def persistent_id(self, obj: Any) -> _Name | None:
        return self._names.get(id(obj))

    def reducer_override(self, obj: Any) -> Any:
        if not _is_filled_later(type(obj)):
            return NotImplemented
        made, arguments, *state = obj.__reduce_ex__(_PROTOCOL)
        if made is not copyreg.__newobj__ or len(state) != 1:  # type: ignore[attr-defined]
            return NotImplemented
        self._later.append((obj, state[0]))
        return made, arguments


def _is_filled_later(kind: type) -> bool:
    """True if objects of a class may be put into sets and dicts before their attributes are set."""
    return kind.__module__.startswith("kshark.") and kind.__hash__ in _BY_IDENTITY


class _Reader(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, machinery: _Machinery) -> None:
        super().__init__(stream)
        self._machinery = machinery

    def read(self) -> Any:
        state = self.load()
        while level := self.load():
            for obj, values in level:
                _fill(obj, values)
        return state

    def persistent_load(self, pid: Any) -> Any:
        return self._machinery.find(pid)


def _fill(obj: Any, values: Any) -> None:
    if hasattr(obj, "__setstate__"):
        obj.__setstate__(values)
        return
    for attributes in values if isinstance(values, tuple) else (values,):
        for name, value in (attributes or {}).items():
            setattr(obj, name, value)

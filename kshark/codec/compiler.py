"""Generate the Python source of a reader from a layout and a version, and compile it when it is first needed.

The source reads at absolute positions of a buffer that holds many messages, and checks almost nothing. It is safe
because a position never moves back: if a reader returns the position where the message ends, every byte it read lies
inside the message. The caller compares the two positions. It hands the body to the interpreter if they differ or if the
reader raised an error.

Four things make it fast. A run of fixed-size fields, with the length byte after them, is one `unpack_from`. An array of
fixed-size structs is one `iter_unpack`. Varints of one byte are read in line. Structs inside structs are read without a
call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import starmap
from struct import Struct
from types import CodeType
from typing import Any, Final, Protocol

from kshark.codec import primitives
from kshark.codec.primitives import UUID, Counted, Misfit
from kshark.codec.shapes import Shape, Slot, shape_of
from kshark.schema import FIXED, Layout

Reader = Callable[..., tuple[Any, int]]


class RecordsReader(Protocol):
    """Reader of a records field: makes the field's value from its bytes in the buffer.

    If not `aligned`, the bytes may begin and end inside a batch.
    """

    def __call__(self, buffer: bytes, start: int, end: int, aligned: bool = True, /) -> Any: ...


#: Names that the source of every reader may use.
_HELPERS: Final[dict[str, Any]] = {
    "Misfit": Misfit,
    "UUID": UUID,
    "length": primitives.length,
    "refused": primitives.refused,
    "starmap": starmap,
    "tag_section": primitives.tag_section,
    "uvarint": primitives.uvarint,
    "uvarlong": primitives.uvarlong,
}
#: The code of the readers compiled so far, and its constants: more than all layouts of Kafka have.
_COMPILED: Final[dict[tuple[Shape, int], tuple[CodeType, dict[str, Any]]]] = {}
_MOST_COMPILED: Final = 4096
#: Most nested loops in one function. Python allows 20 levels; deeper structs become functions of their own.
_LOOPS: Final = 8


def compile_reader(layout: Layout, version: int, *, records: RecordsReader | None = None) -> Reader:
    """Return a reader of the bodies of one version: `read(buffer, start, end) -> (body, position after it)`.

    `end` is where the message ends (default: where the buffer ends); it limits the work on damaged bytes. The reader
    may raise any exception on bytes that do not fit. `records` makes the value of records fields (default: their
    bytes).
    """
    shape = shape_of(layout, version)
    code, constants = _compiled(shape, version)
    names = {**_HELPERS, **constants, "RECORDS": records or _slice}
    exec(code, names)
    for key, readers in [(key, value) for key, value in constants.items() if key.startswith("TAGS")]:
        names[key] = {tag: (name, names[function]) for tag, (name, function) in readers.items()}
    read: Reader = names["read"]
    return read


def reader_source(layout: Layout, version: int) -> str:
    """Return the source that compile_reader compiles, for people to read."""
    return _Source(shape_of(layout, version), version).text()


def is_compiled(layout: Layout, version: int) -> bool:
    """True if a reader of these bodies was compiled in this process, so that compile_reader takes no time."""
    return (shape_of(layout, version), version) in _COMPILED


def _compiled(shape: Shape, version: int) -> tuple[CodeType, dict[str, Any]]:
    compiled = _COMPILED.get((shape, version))
    if compiled is None:
        source = _Source(shape, version)
        code = compile(source.text(), f"<{shape.name} version {version}>", "exec")
        if len(_COMPILED) >= _MOST_COMPILED:
            _COMPILED.clear()
        compiled = _COMPILED[shape, version] = code, source.constants
    return compiled


def _slice(buffer: bytes, start: int, end: int, aligned: bool = True) -> bytes:
    return buffer[start:end]


class _Source:
    """Source of one reader: functions, and the constants that they name.

    Constants are in capitals, so that no field has the same name.
    """

    def __init__(self, shape: Shape, version: int) -> None:
        self.constants: dict[str, Any] = {}
        self._constant_names: dict[Any, str] = {}
        self._functions: list[str] = []
        self._title = f"# {shape.name}, version {version}"
        self._names = 0
        body = _Function(self, "read", "end=None")
        with body.block("if end is None:"):
            body.line("end = len(b)")
        self.add(body, body.struct(shape))

    def text(self) -> str:
        return "\n\n\n".join([self._title, *self._functions]) + "\n"

    def add(self, function: _Function, result: str) -> None:
        """Finish a function that returns this expression."""
        function.line(f"return {result}, p")
        self._functions.append("\n".join(function.lines))

    def name(self, hint: str) -> str:
        """Return a variable name that is not used yet."""
        self._names += 1
        return f"{hint or 'item'}_{self._names}"

    def constant(self, kind: str, value: Any, key: Any) -> str:
        """Return the name of a constant; all values with the same key share one name."""
        name = self._constant_names.get(key)
        if name is None:
            name = self._constant_names[key] = f"{kind}{len(self._constant_names) + 1}"
            self.constants[name] = value
        return name

    def unpack(self, letters: str) -> str:
        return self.constant("FIXED", Struct(">" + letters).unpack_from, ("unpack", letters))

    def rows(self, letters: str) -> str:
        return self.constant("ROWS", Struct(">" + letters).iter_unpack, ("rows", letters))

    def many(self, letter: str) -> str:
        return self.constant("MANY", Counted(letter), ("many", letter))

    def make(self, shape: Shape) -> str:
        return self.constant("MAKE", shape.make, shape)

    def tags(self, shape: Shape) -> str:
        """Return the name of a table: tag to attribute, and to the name of the function that reads its value."""
        readers = {}
        for tag, slot in shape.tags.items():
            function = _Function(self, self.name(f"tag_{slot.name}"))
            self.add(function, function.slot(slot))
            readers[tag] = (slot.name, function.name)
        readers.update({tag: (field.name, primitives.refused.__name__) for tag, field in shape.foreign.items()})
        return self.constant("TAGS", readers, ("tags", shape))


class _Function:
    """Lines of one generated function.

    Names in them: b buffer, p position, n a length or count, q the position where it ends, t the first tag byte.

    Fixed-size fields are collected until a line needs one of them; then one `unpack_from` reads them all.
    """

    def __init__(self, source: _Source, name: str, end: str = "end") -> None:
        self.name = name
        self.lines = [f"def {name}(b, p, {end}):"]
        self._source = source
        self._depth = 1
        self._loops = 0
        self._run: list[tuple[str, int, str]] = []

    def line(self, text: str) -> None:
        run, self._run = self._run, []
        if run:
            names = ", ".join(name for _, _, name in run)
            letters = "".join(letter for letter, _, _ in run)
            if letters == "B":
                self.line(f"{names} = b[p]")
            else:
                self.line(f"{names}{',' if len(run) == 1 else ''} = {self._source.unpack(letters)}(b, p)")
            self.line(f"p += {sum(size for _, size, _ in run)}")
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        assert not self._run, "a block ends with a line that uses the fields it read"
        self._depth -= 1

    # -- structs

    def struct(self, shape: Shape) -> str:
        """Read a struct; return the expression of its value."""
        values = ", ".join([self.slot(slot) for slot in shape.slots])
        make = self._source.make(shape)
        if not shape.flexible:
            return f"{make}({values})"
        name = self._source.name(shape.name.rpartition(".")[2].lower())
        self._run.append(("B", 1, "t"))
        self.line(f"{name} = {make}({values})")
        with self.block("if t:"):
            self.line(f"p = tag_section({name}, b, p - 1, end, {self._source.tags(shape)})")
        return name

    def slot(self, slot: Slot) -> str:
        """Read a field; return the expression of its value."""
        if slot.type in FIXED:
            name = self._source.name(slot.name)
            self._run.append((*FIXED[slot.type], name))
            return f"UUID[{name}]" if slot.type == "uuid" else name
        match slot.type:
            case "struct":
                return self._nullable_struct(slot) if slot.nullable else self._plain_struct(slot)
            case "array":
                return self._array(slot)
            case "string" | "bytes" | "records":
                return self._sized(slot)
            case _:
                return self._varying(slot)

    def _plain_struct(self, slot: Slot) -> str:
        assert slot.shape is not None
        if self._loops < _LOOPS:
            return self.struct(slot.shape)
        function = _Function(self._source, self._source.name(f"read_{slot.name}"))
        self._source.add(function, function.struct(slot.shape))
        name = self._source.name(slot.name)
        self.line(f"{name}, p = {function.name}(b, p, end)")
        return name

    def _nullable_struct(self, slot: Slot) -> str:
        name = self._source.name(slot.name)
        if slot.tagged:
            self.line("n, p = uvarint(b, p)")
            null = "not n"
        else:
            self._run.append(("b", 1, "n"))
            null = "n < 0"
        with self.block(f"if {null}:"):
            self.line(f"{name} = None")
        with self.block("else:"):
            self.line(f"{name} = {self._plain_struct(slot)}")
        return name

    # -- values with a length

    def _length(self, slot: Slot) -> None:
        if slot.compact:
            self._run.append(("B", 1, "n"))
            with self.block("if n > 127:"):
                self.line("n, p = length(b, p - 1, end)")
        else:
            self._run.append(("h", 2, "n") if slot.type == "string" else ("i", 4, "n"))

    def _otherwise_null(self, slot: Slot, name: str) -> None:
        with self.block("else:"):
            self.line(f"{name} = None" if slot.nullable else "raise Misfit")

    def _sized(self, slot: Slot) -> str:
        name = self._source.name(slot.name)
        self._length(slot)
        after = "p + n - 1" if slot.compact else "p + n"
        with self.block("if n:" if slot.compact else "if n >= 0:"):
            if slot.type == "string":
                self.line(f"{name} = b[p : (p := {after})].decode()")
            else:
                self.line(f"q = {after}")
                with self.block("if q > end:"):
                    self.line("raise Misfit")
                value = "b[p:q]" if slot.type == "bytes" else f"RECORDS(b, p, q, {slot.aligned})"
                self.line(f"{name} = {value}")
                self.line("p = q")
        self._otherwise_null(slot, name)
        return name

    def _varying(self, slot: Slot) -> str:
        name = self._source.name(slot.name)
        self._run.append(("B", 1, name))
        with self.block(f"if {name} > 127:"):
            self.line(f"{name}, p = {'uvarint' if slot.type == 'varint' else 'uvarlong'}(b, p - 1)")
        return f"({name} >> 1) ^ -({name} & 1)"

    # -- arrays

    def _array(self, slot: Slot) -> str:
        assert slot.element is not None
        name = self._source.name(slot.name)
        self._length(slot)
        with self.block("if n > 1:" if slot.compact else "if n > 0:"):
            if slot.compact:
                self.line("n -= 1")
            self._elements(name, slot.element)
        with self.block("elif n:" if slot.compact else "elif n == 0:"):
            self.line(f"{name} = []")
        self._otherwise_null(slot, name)
        return name

    def _elements(self, name: str, element: Slot) -> None:
        """Read n > 0 elements. Each takes at least one byte, so the bytes left limit n."""
        with self.block(f"if n * {element.least} > end - p:"):
            self.line("raise Misfit")
        if element.type == "uuid":
            self.line("q = p + n * 16")
            self.line(f"{name} = [UUID[b[i : i + 16]] for i in range(p, q, 16)]")
            self.line("p = q")
        elif element.type in FIXED:
            letter, size = FIXED[element.type]
            self.line(f"{name} = [*{self._source.many(letter)}[n](b, p)]")
            self.line(f"p += n * {size}")
        elif _is_row(element):
            self._rows(name, element)
        else:
            self._each_element(name, element)

    def _each_element(self, name: str, element: Slot) -> None:
        self.line(f"{name} = []")
        self._loops += 1
        with self.block("for _ in range(n):"):
            self.line(f"{name}.append({self.slot(element)})")
        self._loops -= 1

    def _rows(self, name: str, element: Slot) -> None:
        """Read structs of fixed size at once. Flexible structs have a fixed size as long as their tag bytes are 0."""
        shape = element.shape
        assert shape is not None
        self.line(f"q = p + n * {shape.least}")
        if not shape.flexible:
            self._all_rows(name, shape)
            return
        with self.block(f"if b[p + {shape.least - 1} : q : {shape.least}].count(0) == n:"):
            self._all_rows(name, shape)
        with self.block("else:"):
            self._each_element(name, element)

    def _all_rows(self, name: str, shape: Shape) -> None:
        letters = "".join(FIXED[slot.type][0] for slot in shape.slots) + "x" * shape.flexible
        rows = f"{self._source.rows(letters)}(b[p:q])"
        make = self._source.make(shape)
        if any(slot.type == "uuid" for slot in shape.slots):
            names = [self._source.name(slot.name) for slot in shape.slots]
            values = [f"UUID[{x}]" if slot.type == "uuid" else x for slot, x in zip(shape.slots, names, strict=True)]
            self.line(f"{name} = [{make}({', '.join(values)}) for {', '.join(names)}, in {rows}]")
        else:
            self.line(f"{name} = [*starmap({make}, {rows})]")
        self.line("p = q")


def _is_row(element: Slot) -> bool:
    """True if all elements have the same size, tagged fields aside."""
    shape = element.shape
    return (
        shape is not None
        and not element.nullable
        and bool(shape.slots)
        and all(slot.type in FIXED for slot in shape.slots)
    )

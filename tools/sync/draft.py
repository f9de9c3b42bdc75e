"""Write the first draft of a dissector from Kafka's definitions; the maintainer adds the purpose of the API.

The draft is formatted like `ruff format`, so that it differs from the finished file only in edits by people.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kshark import schema
from kshark.schema import ALWAYS, NEVER, Field, Versions
from tools.sync.definitions import WORDS, Definition, snake_case

WIDTH: Final = 120
#: A structure with more fields than this, or in more than one place, gets a name.
INLINE: Final = 3


def api_draft(name: str, request: Definition, response: Definition) -> str:
    """Return the file of an API; `name`: without Request or Response, and its two definitions."""
    low = min(request.layout.versions.low, response.layout.versions.low)
    high = max(request.layout.versions.high, response.layout.versions.high)
    source = _Source([request, response])
    arguments = [
        str(request.key),
        f'"{name}"',
        f'versions="{Versions(low, high)}"',
        f'flexible="{request.layout.flexible}"',
        "request=" + source.struct(request.layout.root, 1, len("request=,")),
        "response=" + source.struct(response.layout.root, 1, len("response=,")),
    ]
    introduction = f'"""{name} (API {request.key}): say here what it is for."""'
    return source.file(introduction, "DISSECTOR = " + _call("api", arguments, 0, spread=True))


def layout_draft(definition: Definition) -> str:
    """Return the lines of a stored or embedded structure for a file in kshark_dissectors.embedded."""
    made = definition.layout
    source = _Source([definition])
    fields = source.struct(made.root, 1, len("fields=,"))
    arguments = [f'"{made.name}"', f'versions="{made.versions}"', f'flexible="{made.flexible}"', f"fields={fields}"]
    name = snake_case(made.name).upper()
    introduction = f'"""{made.name}: say here what it is for."""'
    return source.file(introduction, f"{name} = " + _call("layout", arguments, 0, before=len(name) + 3))


class _Source:
    """Convert fields to source text; collect the schema functions in use, and the named structures."""

    def __init__(self, definitions: Sequence[Definition]) -> None:
        self._used: set[str] = set()
        self._names: dict[int, str] = {}
        self._variables: list[str] = []
        taken: dict[str, Field] = {}
        for definition in definitions:
            uses = list(_structs_in(definition.layout.root))
            for kafka_name, field in definition.structs.items():
                count = sum(1 for other in uses if other == field)
                if len(field.fields) <= INLINE and count < 2:
                    continue
                name = snake_case(kafka_name)
                if hasattr(schema, name) or (name in taken and taken[name] != field):
                    name = f"{definition.kind}_{name}"
                self._name(field, name, taken)

    def _name(self, field: Field, name: str, taken: dict[str, Field]) -> None:
        if name not in taken:
            taken[name] = field
            self._variables.append(f"{name} = " + self.struct(field, 0, len(name) + 3))
        self._names[id(field.fields)] = name

    def file(self, introduction: str, value: str) -> str:
        """Return the whole file."""
        enums = ["from kshark_dissectors.enums import ErrorCode"] if "ErrorCode" in self._used else []
        words = {"api"} if value.startswith("DISSECTOR") else {"layout"}
        words |= self._used - {"ErrorCode"}
        imports = [f"from kshark.schema import {', '.join(sorted(words, key=_natural))}", *enums]
        return "\n\n".join([introduction, "\n".join(imports), *self._variables, value]) + "\n"

    def struct(self, field: Field, depth: int, before: int) -> str:
        """Return the struct's text with `depth` indentations and `before` other characters on its first line."""
        return self._call("struct", [self._field(inner, depth + 1) for inner in field.fields], depth, before)

    def _field(self, field: Field, depth: int) -> str:
        attributes = list(self._attributes(field))
        if field.element is not None:
            element = self._element(field.element, depth + 1)
            return self._call("array", [f'"{field.name}"', element, *attributes], depth)
        if field.type != "struct":
            return self._call(WORDS.get(field.type, field.type), [f'"{field.name}"', *attributes], depth)
        if id(field.fields) in self._names:
            return self._call("named", [f'"{field.name}"', self._names[id(field.fields)], *attributes], depth)
        inner = [self._field(own, depth + 1) for own in field.fields]
        return self._call("struct", [*inner, f'name="{field.name}"', *attributes], depth)

    def _element(self, element: Field, depth: int) -> str:
        if element.type != "struct":
            return self._call(WORDS.get(element.type, element.type), [], depth)
        return self._names.get(id(element.fields)) or self.struct(element, depth, 1)

    def _attributes(self, field: Field) -> Iterator[str]:
        if field.versions != ALWAYS:
            yield f'versions="{field.versions}"'
        if field.nullable != NEVER:
            yield f'nullable="{field.nullable}"'
        if field.tag is not None:
            yield f"tag={field.tag}"
            if field.tagged != field.versions:
                yield f'tagged="{field.tagged}"'
        if field.default is not None:
            yield f"default={field.default}"
        if field.flexible != ALWAYS:
            yield f'flexible="{field.flexible}"'
        if field.name.endswith("error_code"):
            self._used.add("ErrorCode")
            yield "enum=ErrorCode"

    def _call(self, word: str, arguments: list[str], depth: int, before: int = 0) -> str:
        self._used.add(word)
        return _call(word, arguments, depth, before=before)


def _call(word: str, arguments: list[str], depth: int, *, before: int = 0, spread: bool = False) -> str:
    """Return `word(a, b)` on one line if it fits, else with one argument per line."""
    line = f"{word}({', '.join(arguments)})"
    if not spread and "\n" not in line and 4 * depth + before + len(line) + 1 <= WIDTH:
        return line
    inside = "    " * (depth + 1)
    return "\n".join([f"{word}(", *(f"{inside}{argument}," for argument in arguments), "    " * depth + ")"])


def _natural(word: str) -> tuple[str, int]:
    """Return a sort key with int8 before int16, as ruff sorts imports."""
    name = word.rstrip("0123456789")
    return name, int(word[len(name) :] or 0)


def _structs_in(struct: Field) -> Iterator[Field]:
    """Yield every struct inside a struct, as a type without a name; equal structs are repeated."""
    for field in struct.fields:
        inner = field.element or field
        if inner.type == "struct":
            yield inner if field.element else Field("", "struct", fields=field.fields)
            yield from _structs_in(inner)


def index_line(name: str, key: int, versions: Versions) -> str:
    """Return the API's line for kshark_dissectors.index."""
    return f'    {key}: ("{name}", "{snake_case(name)}", "{versions}"),'

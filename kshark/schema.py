"""Vocabulary of the dissectors: Kafka's message definitions as Python values.

A schema is a value: order is wire order, indentation is nesting. A mistake raises SchemaError at import, at the line of
the mistake. Versions are written as Kafka writes them: `"0-3"`, `"2+"`, `"4"`, `"none"`. Source of the types: Kafka
protocol guide, "Protocol Primitive Types".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, Literal

from msgspec import Struct, field

from kshark import limits
from kshark.errors import SchemaError

OPEN: Final = 32767
EnumClass = type[IntEnum]
#: No message has a higher version; open ranges are checked up to here.
_LAST_VERSION: Final = 63


class Versions(Struct, frozen=True):
    """An inclusive range of versions; empty when high < low."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def nearest(self, version: int) -> int:
        """Return the version itself if it is in the range, else the nearer end of the range."""
        return min(max(version, self.low), self.high)

    def __and__(self, other: Versions) -> Versions:
        return Versions(max(self.low, other.low), min(self.high, other.high))

    def __str__(self) -> str:
        if self.high < self.low:
            return "none"
        if self.high == OPEN:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


NEVER: Final = Versions(0, -1)
ALWAYS: Final = Versions(0, OPEN)


@lru_cache(maxsize=1024)  # few texts are written again and again
def versions_of(text: str) -> Versions:
    """Parse `"0-3"`, `"2+"`, `"4"` or `"none"`. Raise SchemaError for other text."""
    if text == "none":
        return NEVER
    match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    if match is None:
        raise SchemaError(f"not a version range: {text!r} (write 0-3, 2+, 4 or none)")
    low = int(match[1])
    high = OPEN if match[2] else int(match[3]) if match[3] else low
    if high < low:
        raise SchemaError(f"version range {text!r} ends before it begins")
    return Versions(low, high)


#: Fixed-size types: struct's letter and size in bytes, big-endian.
FIXED: Final[Mapping[str, tuple[str, int]]] = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
SIZED: Final = ("string", "bytes", "records")
#: Zigzag varints; only in records and in the structures stored inside them.
VARYING: Final = ("varint", "varlong")


class Secret(Struct, frozen=True):
    """Condition under which a field is a credential: always, or depending on a field next to it.

    `flag` names a field that must be true. `name` names a field whose text must end in one of the words `ends`, in
    upper or lower case; a dot in a word stands for any of `.-_` or for nothing.
    """

    flag: str = ""
    name: str = ""
    ends: tuple[str, ...] = ()


#: A field that is always a credential.
SECRET: Final = Secret()


class Field(Struct, frozen=True):
    """One field, or, with an empty name, the element type of an array.

    `type` is a key of FIXED, SIZED or VARYING, or "array" (with `element`) or "struct" (with `fields`). A tagged field
    (`tag` set) is in the tagged-field section in the versions `tagged`. `default` is the meaning of an absent field;
    None: the type's zero. `flexible` narrows the layout's flexible versions for this field alone (the request header's
    client_id is never flexible). `name_in`: this field is a topic id, and the field named by `name_in`, next to it, has
    the topic's name. `aligned` False: records that may begin and end inside a batch. `bits`: each bit of the number
    stands for a member of `enum`. `secret`: the field is a credential, masked unless the user asks for credentials.
    """

    name: str
    type: str
    versions: Versions = ALWAYS
    nullable: Versions = NEVER
    tag: int | None = None
    tagged: Versions = NEVER
    default: Any = None
    about: str = ""
    enum: EnumClass | None = None
    flexible: Versions = ALWAYS
    element: Field | None = None
    fields: tuple[Field, ...] = ()
    name_in: str = ""
    aligned: bool = True
    bits: bool = False
    secret: Secret | None = None

    def in_wire_order(self, version: int) -> tuple[Field, ...]:
        """Return a struct's untagged fields of one version."""
        return tuple(f for f in self.fields if version in f.versions and version not in f.tagged)

    def by_tag(self, version: int) -> dict[int, Field]:
        """Return a struct's tagged fields of one version, by tag."""
        return {f.tag: f for f in self.fields if f.tag is not None and version in f.versions and version in f.tagged}


_is_name: Final = re.compile(r"[a-z][a-z0-9_]*").fullmatch


def _field(
    type: str,
    name: str,
    *,
    versions: str = "0+",
    nullable: str = "none",
    tag: int | None = None,
    tagged: str | None = None,
    default: Any = None,
    about: str = "",
    enum: EnumClass | None = None,
    flexible: str = "0+",
    element: Field | None = None,
    fields: tuple[Field, ...] = (),
    name_in: str = "",
    aligned: bool = True,
    bits: bool = False,
    secret: Secret | None = None,
) -> Field:
    if name and not _is_name(name):
        raise SchemaError(f"field name {name!r} is not snake_case")
    if tagged is not None and tag is None:
        raise SchemaError(f"field {name!r} has tagged={tagged!r} without a tag")
    if tag is not None and not 0 <= tag <= 0xFFFFFFFF:
        raise SchemaError(f"field {name!r}: tag {tag} is not an unsigned 32-bit number")
    if type not in SIZED and type not in ("array", "struct") and nullable != "none":
        raise SchemaError(f"field {name!r}: {type} cannot be null")
    if default is not None and not _fits(type, default):
        raise SchemaError(f"field {name!r}: {default!r} is not a default of {type}")
    if (
        (name_in and type != "uuid")
        or (not aligned and type != "records")
        or (bits and (enum is None or type == "array"))
    ):
        raise SchemaError(f"field {name!r}: name_in is for ids, aligned for records, bits for numbers with an enum")
    if secret is not None and type not in ("string", "bytes"):
        raise SchemaError(f"field {name!r}: only strings and bytes can be credentials")
    where = versions_of(tagged if tagged is not None else versions) if tag is not None else NEVER
    every, null, compact = versions_of(versions), versions_of(nullable), versions_of(flexible)
    return Field(
        name,
        type,
        every,
        null,
        tag,
        where,
        default,
        about,
        enum,
        compact,
        element,
        fields,
        name_in,
        aligned,
        bits,
        secret,
    )


def _fits(type: str, default: Any) -> bool:
    """True if a default has the Python type of the field."""
    if type in ("bool", "string", "uuid"):
        return isinstance(default, bool if type == "bool" else str)
    if type in ("bytes", "records", "array"):
        return isinstance(default, (list, tuple) if type == "array" else bytes)
    if isinstance(default, bool) or type == "struct":
        return False
    if type == "float64":
        return isinstance(default, (int, float))
    bits = {"varint": 32, "varlong": 64}.get(type) or int(type.removeprefix("u").removeprefix("int"))
    low, high = (0, 1 << bits) if type.startswith("u") else (-1 << (bits - 1), 1 << (bits - 1))
    return isinstance(default, int) and low <= default < high


def _scalar(type: str) -> Callable[..., Field]:
    def make(name: str = "", **attributes: Any) -> Field:
        return _field(type, name, **attributes)

    make.__name__ = type
    make.__doc__ = f"A field of type {type}; without a name, the element type of an array."
    return make


boolean = _scalar("bool")
int8 = _scalar("int8")
int16 = _scalar("int16")
uint16 = _scalar("uint16")
int32 = _scalar("int32")
uint32 = _scalar("uint32")
int64 = _scalar("int64")
float64 = _scalar("float64")
uuid = _scalar("uuid")
string = _scalar("string")
bytes_ = _scalar("bytes")
records = _scalar("records")
varint = _scalar("varint")
varlong = _scalar("varlong")


def array(name: str, element: Field, **attributes: Any) -> Field:
    """Return a field that repeats `element`: `array("partitions", int32())`, `array("topics", struct(...))`."""
    if element.name:
        raise SchemaError(f"array {name!r}: its element type must have no name, not {element.name!r}")
    if element.type == "array":
        raise SchemaError(f"array {name!r}: Kafka has no arrays of arrays")
    if element.tag is not None or element.versions != ALWAYS:
        raise SchemaError(f"array {name!r}: an element has no versions or tag of its own")
    return _field("array", name, element=element, **attributes)


def struct(*fields: Field, name: str = "", **attributes: Any) -> Field:
    """Return a struct of these fields, in wire order; without a name it is a type for `array` or `named`."""
    seen: set[str] = set()
    tags: dict[int, Field] = {}
    for f in fields:
        if not f.name:
            raise SchemaError(f"struct {name or '(element)'}: a field without a name")
        if f.name in seen:
            raise SchemaError(f"struct {name or '(element)'}: field {f.name!r} twice")
        seen.add(f.name)
        if f.tag is not None and f.tag in tags:
            raise SchemaError(f"struct {name or '(element)'}: tag {f.tag} for {tags[f.tag].name!r} and {f.name!r}")
        if f.tag is not None:
            tags[f.tag] = f
    for f in fields:
        if f.name_in and f.name_in not in seen:
            raise SchemaError(
                f"struct {name or '(element)'}: {f.name!r} has its name in {f.name_in!r}, which does not exist"
            )
    return _field("struct", name, fields=fields, **attributes)


def named(name: str, type: Field, **attributes: Any) -> Field:
    """Return a shared struct as a single field: `named("current_leader", leader, versions="12+", tag=1)`."""
    if type.type != "struct" or type.name:
        raise SchemaError(f"{name!r}: expects a struct without a name, not the {type.type} {type.name!r}")
    return struct(*type.fields, name=name, **attributes)


class Layout(Struct, frozen=True, eq=False):
    """A message's body in all its versions.

    `older`: other layouts that a version once had; they are recognised by their length.
    """

    name: str
    versions: Versions
    flexible: Versions
    root: Field
    older: Mapping[int, Field] = field(default_factory=dict)


def layout(
    name: str, *, versions: str, flexible: str, fields: Field, older: Mapping[int, Field] | None = None
) -> Layout:
    """Return the layout of a structure that is not an API's: a header, a stored record, bytes inside bytes."""
    every, compact = versions_of(versions), versions_of(flexible)
    for root in (fields, *(older or {}).values()):
        if root.type != "struct" or root.nullable != NEVER:
            raise SchemaError(f"{name}: a layout's fields are a struct that is never null")
        _check(root, every, compact, name, 1)
    return Layout(name, every, compact, fields, older or {})


def _check(struct: Field, versions: Versions, flexible: Versions, path: str, depth: int) -> None:
    """Raise SchemaError for a struct that cannot be written, or not read back, in one of these versions."""
    if depth > limits.NESTING:
        raise SchemaError(f"{path}: structs are nested more than {limits.NESTING} deep")
    for f in struct.fields:
        where, name = versions & f.versions, f"{path}.{f.name}"
        tagged = where & f.tagged
        if tagged.low <= tagged.high and not (tagged.low in flexible and tagged.high in flexible):
            raise SchemaError(f"{name}: a tagged field in versions {tagged}, but only {flexible} are flexible")
        inner = f.element or f
        if inner.type == "struct":
            _check(inner, where, flexible & f.flexible & inner.flexible, name, depth + 1)
            if f.element is not None:
                _check_not_empty(f.element, where, flexible & f.flexible & inner.flexible, name)


def _check_not_empty(element: Field, versions: Versions, flexible: Versions, path: str) -> None:
    """Raise SchemaError for elements that take no byte: a small frame could announce any number of them."""
    for version in range(versions.low, min(versions.high, _LAST_VERSION) + 1):
        if _takes_no_byte(element, version, flexible):
            raise SchemaError(f"{path}: in version {version} its elements take no bytes")


def _takes_no_byte(struct: Field, version: int, flexible: Versions) -> bool:
    if struct.type != "struct" or version in flexible or version in struct.nullable:
        return False
    return all(_takes_no_byte(f, version, flexible & f.flexible) for f in struct.in_wire_order(version))


Sasl = Literal["begins", "continues"]


class Api(Struct, frozen=True, eq=False):
    """One API of Kafka: both layouts, and attributes for each way in which its wire format differs from all others.

    `response_header`: a fixed header version of the answer (ApiVersions: 0). `fallback`: (error code, version): an
    answer that begins with this error code has that version's layout. `one_way`: (field, value): a request with this
    value has no answer. `then_raw`: after an answer of these versions the connection carries SASL tokens without
    headers. `software`: the request's fields with the name and version of the client's software. `repeated`: every
    connection gets the same answer, so that it is worth keeping. `early_access`: versions that no final release
    accepts. `sasl`: it begins or continues authentication. `kip` and `about` are for people.
    """

    key: int
    name: str
    versions: Versions
    flexible: Versions
    request: Layout
    response: Layout
    kip: str = ""
    about: str = ""
    response_header: int | None = None
    request_header: Mapping[int, int] = field(default_factory=dict)
    fallback: tuple[int, int] | None = None
    one_way: tuple[str, int] | None = None
    software: tuple[str, str] | None = None
    then_raw: Versions = NEVER
    repeated: bool = False
    early_access: Versions = NEVER
    sasl: Sasl | None = None

    def layout(self, kind: str, version: int, begins: bytes = b"") -> tuple[Layout, int]:
        """Return the layout of requests or responses, and the version in which a body is laid out.

        `begins` are the first bytes of the body.
        """
        if kind == "request":
            return self.request, version
        fell_back = (
            self.fallback is not None
            and int.from_bytes(begins[:2], "big", signed=True) == self.fallback[0]
            and len(begins) > 1
        )
        return self.response, self.fallback[1] if self.fallback is not None and fell_back else version

    def request_header_version(self, version: int) -> int:
        """Return the header version of a request: 1, or 2 in flexible versions (KIP-482).

        The dissector may set another.
        """
        return self.request_header.get(version, 2 if version in self.flexible else 1)

    def response_header_version(self, version: int) -> int:
        """Return the header version of a response: 0, or 1 in flexible versions (KIP-482).

        The dissector may set another (KIP-511).
        """
        if self.response_header is not None:
            return self.response_header
        return 1 if version in self.flexible else 0


def api(
    key: int,
    name: str,
    *,
    versions: str,
    flexible: str,
    request: Field,
    response: Field,
    kip: str = "",
    about: str = "",
    response_header: int | None = None,
    request_header: Mapping[int, int] | None = None,
    fallback: tuple[int, int] | None = None,
    one_way: tuple[str, int] | None = None,
    software: tuple[str, str] | None = None,
    then_raw: str = "none",
    repeated: bool = False,
    early_access: str = "none",
    sasl: Sasl | None = None,
    older_request: Mapping[int, Field] | None = None,
    older_response: Mapping[int, Field] | None = None,
) -> Api:
    """Return an API's dissector, the one value that a file in dissectors/ exports as DISSECTOR."""
    if not 0 <= key <= 32767:
        raise SchemaError(f"{name}: api key {key} is not an int16 of at least 0")
    return Api(
        key,
        name,
        versions_of(versions),
        versions_of(flexible),
        layout(f"{name}Request", versions=versions, flexible=flexible, fields=request, older=older_request),
        layout(f"{name}Response", versions=versions, flexible=flexible, fields=response, older=older_response),
        kip,
        about,
        response_header,
        request_header or {},
        fallback,
        one_way,
        software,
        versions_of(then_raw),
        repeated,
        versions_of(early_access),
        sasl,
    )

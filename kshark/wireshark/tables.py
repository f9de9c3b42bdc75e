"""The registry's layouts as Lua tables: a row for each field, a table for each struct, shared by all that are equal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kshark.registry import Registry
from kshark.schema import (
    ALWAYS,
    FIXED,
    NEVER,
    Api,
    EnumClass,
    Field,
    Layout,
    Secret,
    Versions,
    int8,
    int16,
    int32,
    int64,
    struct,
    uint32,
)
from kshark.wireshark.lua import Name, Row, literal
from kshark_dissectors.enums import ApiKey, ErrorCode

#: Filter names of the interpreter's own fields; a body's field of the same name gets another one.
OWN_FIELDS: Final = (
    "api", "api_key", "api_version", "batch", "client_id", "correlation_id", "cut", "error", "fault", "latency",
    "len", "masked", "null", "ports", "request", "request_in", "response", "response_in", "resync", "skipped", "tag",
    "token", "unknown_version", "unmatched",
)  # fmt: skip
#: Types whose values Wireshark compares with each other. Fields of one filter name are of one of these.
_FAMILIES: Final = {
    "bool": "bool",
    "int8": "int32",
    "int16": "int32",
    "int32": "int32",
    "uint16": "uint32",
    "uint32": "uint32",
    "int64": "int64",
    "float64": "float64",
    "uuid": "string",
    "string": "string",
    "bytes": "bytes",
    "records": "bytes",
}

#: A record batch before its records (magic 2). The codec is in the lowest bits of `attributes`.
_BATCH: Final = struct(
    int64("base_offset"),
    int32("batch_length"),
    int32("partition_leader_epoch"),
    int8("magic"),
    uint32("crc"),
    int16("attributes"),
    int32("last_offset_delta"),
    int64("base_timestamp"),
    int64("max_timestamp"),
    int64("producer_id"),
    int16("producer_epoch"),
    int32("base_sequence"),
    int32("count"),
)


def lua_tables(registry: Registry) -> Iterator[str]:
    """Yield the lines of Lua that define STRUCTS, APIS, HEADERS, BATCH, API_NAMES, ENUMS and SECRETS.

    Raises TypeError for a layout that the interpreter does not read.
    """
    writer = _Writer(registry)
    apis = [f"  [{api.key}]={literal(writer.api(api))}," for api in writer.apis]
    headers = [
        f"  {name}={literal(Row(writer.struct(header.root)))},"
        for name, header in (("request", registry.request_header), ("response", registry.response_header))
    ]
    batch = writer.struct(_BATCH)
    yield "local STRUCTS={}"
    yield from writer.structs
    yield "local APIS={"
    yield from apis
    yield "}"
    yield f"local BATCH={batch}"
    yield "local HEADERS={"
    yield from headers
    yield "}"
    yield f"local API_NAMES={literal(registry.names())}"
    yield "local ENUMS={"
    for enum in sorted(writer.enums, key=lambda enum: enum.__name__):
        members = {} if enum is ApiKey else {member.value: member.name for member in enum}
        yield f"  {enum.__name__}={literal(registry.names() if enum is ApiKey else members)},"
    yield "}"
    yield f"local SECRETS={literal([_secret(secret) for secret in writer.secrets])}"


class _Writer:
    """Write layouts, and collect what they refer to: structs that several of them have, enums, secrets."""

    def __init__(self, registry: Registry) -> None:
        found = (registry.api(key) for key in sorted(registry.names()))
        self.apis = [api for api in found if api is not None]
        self.structs: list[str] = []
        self.enums: set[EnumClass] = {ApiKey, ErrorCode}
        self.secrets: list[Secret] = []
        self._names = _filter_names(self.apis)
        self._known: dict[str, Name] = {}

    def api(self, api: Api) -> Row:
        """Return an API with everything that the interpreter needs to know of it."""
        return Row(
            api.name,
            str(api.versions),
            str(api.flexible),
            request=self._layout(api.request),
            response=self._layout(api.response),
            response_header=api.response_header,
            request_header=api.request_header or None,
            fallback=None if api.fallback is None else list(api.fallback),
            one_way=None if api.one_way is None else list(api.one_way),
            then_raw=None if api.then_raw == NEVER else str(api.then_raw),
        )

    def _layout(self, layout: Layout) -> Row:
        older = {version: self.struct(root) for version, root in layout.older.items()}
        return Row(self.struct(layout.root), older=older or None)

    def struct(self, type: Field) -> Name:
        """Return the name of a struct's table; equal structs have one table."""
        text = "{" + ",".join(literal(self._row(field)) for field in type.fields) + "}"
        if text not in self._known:
            self._known[text] = Name(f"STRUCTS[{len(self._known) + 1}]")
            self.structs.append(f"{self._known[text]}={text}")
        return self._known[text]

    def _row(self, field: Field) -> Row:
        inner = field.element or field
        enum = field.enum or inner.enum
        if enum is not None:
            self.enums.add(enum)
        if field.element is not None and (inner.nullable != NEVER or inner.flexible != ALWAYS):
            raise TypeError(f"{field.name}: its elements may be null, or have lengths of their own kind")
        filter_name = self._names.get((field.name, _FAMILIES.get(inner.type, "")), field.name)
        return Row(
            field.name,
            field.type,
            v=_versions(field.versions),
            null=None if field.nullable == NEVER else str(field.nullable),
            tag=field.tag,
            tagged=None if field.tag is None else str(field.tagged),
            flex=_versions(field.flexible),
            of=None if field.element is None else self._element(inner),
            fields=self.struct(field) if field.type == "struct" else None,
            id=None if filter_name == field.name else filter_name,
            enum=None if enum is None else enum.__name__,
            bits=field.bits or inner.bits,
            secret=self._secret(field.secret or inner.secret),
            name_in=field.name_in,
            unaligned=not field.aligned,
            about=field.about,
        )

    def _element(self, element: Field) -> Any:
        return self.struct(element) if element.type == "struct" else element.type

    def _secret(self, secret: Secret | None) -> int | None:
        if secret is None:
            return None
        if secret not in self.secrets:
            self.secrets.append(secret)
        return self.secrets.index(secret) + 1


def _filter_names(apis: Iterable[Api]) -> dict[tuple[str, str], str]:
    """Return filter names by field name and family of types, where they are not the field name itself.

    Of several families the most frequent keeps the name.
    """
    families: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for api in apis:
        for layout in (api.request, api.response):
            for field in (field for root in (layout.root, *layout.older.values()) for field in _fields(root)):
                inner = field.element or field
                if inner.type in _FAMILIES:
                    families[field.name][_FAMILIES[inner.type]] += 1
    names = {}
    for name, counted in families.items():
        ranked = sorted(counted, key=lambda family: (-counted[family], family))
        for family in ranked:
            own = name if family == ranked[0] else f"{name}_{family}"
            if own in OWN_FIELDS:
                own = f"body.{own}"
            if own != name:
                names[name, family] = own
    return names


def _fields(type: Field) -> Iterator[Field]:
    """Yield all fields of a struct, at any depth."""
    for field in type.fields:
        yield field
        yield from _fields(field.element or field)


def _versions(versions: Versions) -> str | None:
    return None if versions == ALWAYS else str(versions)


def _secret(secret: Secret) -> Row:
    return Row(flag=secret.flag, name=secret.name, ends=list(secret.ends) or None)


assert set(FIXED) <= set(_FAMILIES)

"""A dissector's layout in one version, as the rows the JSON definitions give."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache

from kshark.schema import FIXED, Api, Field, Layout, Versions
from kshark_dissectors.index import INDEX
from tests.dissectors.kafka_json import Row

WRITTEN = {key: module for key, (_, module, _) in INDEX.items() if module}


@cache
def dissector(key: int) -> Api:
    found = importlib.import_module(f"kshark_dissectors.{WRITTEN[key]}").DISSECTOR
    assert isinstance(found, Api)
    return found


def schema_rows(struct: Field, version: int) -> tuple[Row, ...]:
    out = []
    for field in struct.fields:
        if version not in field.versions:
            continue
        inner = field.element if field.element is not None else field
        numeric = field.type in FIXED and field.type != "uuid"
        zero = False if field.type == "bool" else 0
        out.append(
            Row(
                field.name,
                f"[]{inner.type}" if field.type == "array" else field.type,
                version in field.nullable,
                field.tag if version in field.tagged else None,
                (zero if field.default is None else field.default) if numeric else field.default,
                schema_rows(inner, version),
            )
        )
    return tuple(out)


def span(versions: Versions) -> range:
    return range(versions.low, versions.high + 1)


def walk(layout: Layout) -> Iterator[tuple[str, Field]]:
    """Every field of a layout with its dotted path."""
    todo = [(field.name, field) for field in layout.root.fields]
    while todo:
        path, field = todo.pop()
        yield path, field
        inner = field.element if field.element is not None else field
        todo += [(f"{path}.{below.name}", below) for below in inner.fields]

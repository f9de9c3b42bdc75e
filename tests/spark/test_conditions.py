"""A condition's SQL says what its Python says, of the same bodies: as JSON read back by from_json, as our tables have
them."""

from __future__ import annotations

from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from kshark.codec import compile_writer, interpret
from kshark.codec.shapes import shape_of
from kshark.conditions import Condition, F
from kshark.schema import Field, Layout
from tests.conditions.strategies import conditions
from tests.property.schemas import VERSIONS, layouts, values

pytestmark = pytest.mark.spark
#: Types in Spark SQL; what is text in JSON is text here.
TYPES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "uint16": "int",
    "int32": "int",
    "varint": "int",
    "uint32": "bigint",
    "int64": "bigint",
    "varlong": "bigint",
    "float64": "double",
}


def ddl(field: Field) -> str:
    if field.element is not None:
        return f"array<{ddl(field.element)}>"
    if field.type == "struct":
        return f"struct<{', '.join(f'{each.name}: {ddl(each)}' for each in field.fields)}>"
    return TYPES.get(field.type, "string")


@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.data(), layouts())
def test_sql_is_python(spark: Any, data: st.DataObject, layout: Layout) -> None:
    from pyspark.sql import functions as F

    some: list[Condition] = data.draw(st.lists(conditions(layout.root), min_size=25, max_size=25))
    rows = []
    for version in (*VERSIONS, *VERSIONS):
        written = compile_writer(layout, version)(data.draw(values(shape_of(layout, version))))
        body = interpret(layout, version, written, 0, len(written)).body
        if "inf" in repr(body):
            continue  # JSON has none
        rows.append(
            (
                len(rows),
                version,
                msgspec.json.encode(body).decode(),
                [condition.compiled(version)(body) for condition in some],
            )
        )
    frame = spark.createDataFrame([row[:3] for row in rows], "at int, version int, json string")
    typed = frame.select("at", "version", F.from_json("json", ddl(layout.root)).alias("body"))
    asked = typed.select(
        "at", *(F.expr(condition.sql("body", "version")).alias(f"c{n}") for n, condition in enumerate(some))
    )
    found = {at: list(truth) for at, *truth in asked.collect()}
    for at, version, json, truth in rows:
        wrong = [
            condition for condition, ours, theirs in zip(some, truth, found[at], strict=True) if ours is not theirs
        ]
        assert not wrong, (wrong[0], wrong[0].sql("body", "version"), version, json)


#: Where Java reads the same words otherwise, if nobody tells it.
PATTERNS = [
    *"^$.",
    "a$",
    r"a\z",
    r"\$",
    "[$]",
    "^.b$",
    r"\bb",
    r"b\b",
    r"\B",
    r"\w",
    r"^\W",
    r"\d",
    "(?m)^b$",
    "(?s)a.b",
    "(?P<n>ÉA)",
    r"\Qa$\E$",
    "[[]",
    "[a&&b]",
    "k",
]
TEXTS = [
    "",
    "a",
    "a\n",
    "a\nb",
    "a\rb",
    "\u2028b",
    "éb",
    "éa",
    "É",
    "\u0663",
    "a$",
    "[",
    "&",
    "\u212a",
    "\u017f",
    "b\n\n",
]


def test_expressions_are_the_same_to_java(spark: Any) -> None:
    from pyspark.sql import functions

    some = [F("text").matches(pattern) for pattern in PATTERNS]
    more = [F("data").matches(pattern.encode("latin-1")) for pattern in PATTERNS]
    rows = [(text, b64encode(text.encode()).decode()) for text in TEXTS]
    typed = spark.createDataFrame(rows, "text string, data string").select(
        functions.struct("text", "data").alias("body")
    )
    found = typed.select(
        *(functions.expr(condition.sql("body")).alias(f"c{n}") for n, condition in enumerate([*some, *more]))
    ).collect()
    for text, truth in zip(TEXTS, found, strict=True):
        body = SimpleNamespace(text=text, data=text.encode())
        for condition, theirs in zip([*some, *more], truth, strict=True):
            assert condition.compiled()(body) is theirs, (condition.description, text)


def test_numbers_that_no_field_can_have_are_compared_with_what_is_there(spark: Any) -> None:
    from pyspark.sql import functions

    some = [made for number in (1 << 63, -(1 << 63) - 1, (1 << 63) - 1, -(1 << 63)) for made in compared(number)]
    rows = [(json,) for json in ("{}", '{"a": null}', '{"a": 5}')]
    typed = spark.createDataFrame(rows, "json string").select(functions.from_json("json", "a int").alias("body"))
    found = typed.select(
        *(functions.expr(condition.sql("body")).alias(f"c{n}") for n, condition in enumerate(some))
    ).collect()
    for a, truth in zip((UNSET, None, 5), found, strict=True):
        assert [condition.compiled()(SimpleNamespace(a=a)) for condition in some] == [*truth], a


def test_bytes_have_their_own_order_and_not_that_of_their_base64(spark: Any) -> None:
    from pyspark.sql import functions

    data = [b"", b"\0", b"\0" * 40, b"a", b"b", b"\xe3", b"\xe3\xdf", b"\xe3\xdf\0", b"\xff"]
    some = [made for constant in data for made in compared(constant)]
    rows = [(b64encode(each).decode(),) for each in data]
    typed = spark.createDataFrame([*rows, (None,)], "a string").select(functions.struct("a").alias("body"))
    found = typed.select(
        *(functions.expr(condition.sql("body")).alias(f"c{n}") for n, condition in enumerate(some))
    ).collect()
    for a, truth in zip([*data, None], found, strict=True):
        assert [condition.compiled()(SimpleNamespace(a=a)) for condition in some] == [*truth], a


def compared(constant: int | bytes) -> list[Condition]:
    return [
        F("a") < constant,
        F("a") <= constant,
        F("a") > constant,
        F("a") >= constant,
        F("a") == constant,
        F("a") != constant,
    ]

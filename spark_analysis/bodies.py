"""Bodies of messages as Spark's types, and the rules of one exchange as conditions on them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from kshark.analysis import RULES, Rule
from kshark.registry import Registry
from kshark.schema import Field

#: What JSON has a value of each type as.
_TYPES: Final = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "uint16": "int",
    "int32": "int",
    "uint32": "bigint",
    "int64": "bigint",
    "float64": "double",
    "records": "struct<size: bigint>",
}


def type_of(field: Field) -> str:
    """A field's type in Spark SQL, as it is read from a body's JSON."""
    if field.element is not None:
        return f"array<{type_of(field.element)}>"
    if field.fields:
        return f"struct<{members_of(field)}>"
    return _TYPES.get(field.type, "string")


def members_of(struct: Field) -> str:
    """The members of a struct, each with its type."""
    return ", ".join(f"`{field.name}`: {type_of(field)}" for field in struct.fields)


@cache
def request_type(api_key: int) -> str:
    """A request's body of any version: fields that its version does not have are null."""
    api = Registry().api(api_key)
    assert api is not None
    return type_of(api.request.root)


def broken(rules: Sequence[Rule], api_key: int, column: str, version: str) -> str:
    """An expression that says whether a request of that API, in `column`, may break a rule of one exchange; its answer is not asked."""
    conditions = (rule.when.sql(column, version) for rule in rules if api_key in rule.apis and rule.when is not None)
    return " or ".join(f"({condition})" for condition in conditions) or "false"


def ruled_apis(rules: Sequence[Rule] = RULES) -> frozenset[int]:
    """The APIs that rules of one exchange look at."""
    return frozenset(api_key for rule in rules for api_key in rule.apis)

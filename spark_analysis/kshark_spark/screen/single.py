"""Rules of one exchange, asked of columns: whether a request may break one and its answer show it; and codes that rules
name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Final

import numpy as np
import pyarrow as pa

from kshark.analysis.rules import BOOK
from kshark.conditions import Condition
from kshark.conditions.condition import ALWAYS
from kshark.conditions.partial import widened
from kshark_spark.screen.numbers import distinct
from kshark_spark.screen.pieces import Int64s, Truths

#: Fields of any answer, by columns.
_ANSWERED: Final = {"error_code": "error_code"}


def broken(
    rows: pa.Table,
    api_key: Int64s,
    apis: Collection[int],
    asked: Mapping[str, str],
    known: Mapping[Condition, Condition],
) -> Truths:
    """Of requests of these APIs, as far as the columns tell: `asked` has them by the fields that they hold; `known`:
    what else they say."""
    found = np.zeros(len(rows), np.bool_)
    for rule in BOOK.of_exchanges:
        at = np.flatnonzero(np.isin(api_key, [one for one in rule.apis if one in apis]))
        for condition, has, also in (
            (rule.answer, _ANSWERED, {}),
            (rule.broken_by, asked, known),
        ):  # of few answers there is more to ask
            if condition is not None and len(at):
                at = at[_may_hold(widened(condition, has, also), rows, has, at)]
        found[at] = True
    return found


def _may_hold(condition: Condition, rows: pa.Table, has: Mapping[str, str], at: Int64s) -> Truths:
    """Of the rows at these places."""
    if condition is ALWAYS:
        return np.ones(len(at), np.bool_)
    columns = rows.select(["api_version", *has.values()])
    columns = columns if len(at) == len(rows) else columns.take(pa.array(at))
    _, versions = distinct(columns["api_version"])
    by_version = {version: condition.at(version) for (version,) in versions if version is not None}
    fields = sorted(frozenset().union(*(one.fields() for one in by_version.values())))
    codes, told = distinct(columns["api_version"], *(columns[has[field]] for field in fields))
    tests = {version: one.compiled() for version, one in by_version.items()}
    holds = [
        version is None or tests[version](SimpleNamespace(**dict(zip(fields, one, strict=True))))
        for version, *one in told
    ]
    found: Truths = np.array(holds, np.bool_)[codes]
    return found


def has_ruled_code(codes: pa.ChunkedArray) -> Truths:
    """Whether a list has a code that rules name."""
    found = np.zeros(len(codes), np.bool_)
    at = np.flatnonzero(codes.is_valid().to_numpy())
    found[at] = [any(code in BOOK.weirds for code in one) for one in codes.take(pa.array(at)).to_pylist()]
    return found

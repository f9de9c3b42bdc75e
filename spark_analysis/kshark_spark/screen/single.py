"""Check rules of single exchanges on columns: requests that may break one, and codes that rules use."""

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

#: Fields of all responses, with their columns.
_ANSWERED: Final = {"error_code": "error_code"}


def broken(
    rows: pa.Table,
    api_key: Int64s,
    apis: Collection[int],
    asked: Mapping[str, str],
    by_columns: Mapping[Condition, Condition],
) -> Truths:
    """Return rows of these APIs that may break a rule, as far as the columns show.

    `asked`: columns by the fields that they contain; `by_columns`: conditions that columns answer.
    """
    suspicious = np.zeros(len(rows), np.bool_)
    for rule in BOOK.of_exchanges:
        at = np.flatnonzero(np.isin(api_key, [api for api in rule.apis if api in apis]))
        for condition, has, also in (
            (rule.answer, _ANSWERED, {}),
            (rule.broken_by, asked, by_columns),
        ):  # responses first: few of them remain
            if condition is not None and len(at):
                at = at[_may_hold(widened(condition, has, also), rows, has, at)]
        suspicious[at] = True
    return suspicious


def _may_hold(condition: Condition, rows: pa.Table, has: Mapping[str, str], at: Int64s) -> Truths:
    """Return, for each row in `at`, true if the condition may hold."""
    if condition is ALWAYS:
        return np.ones(len(at), np.bool_)
    columns = rows.select(["api_version", *has.values()])
    columns = columns if len(at) == len(rows) else columns.take(pa.array(at))
    _, versions = distinct(columns["api_version"])
    by_version = {version: condition.at(version) for (version,) in versions if version is not None}
    fields = sorted(frozenset().union(*(own.fields() for own in by_version.values())))
    codes, combinations = distinct(columns["api_version"], *(columns[has[field]] for field in fields))
    tests = {version: own.compiled() for version, own in by_version.items()}
    holds = [
        version is None or tests[version](SimpleNamespace(**dict(zip(fields, values, strict=True))))
        for version, *values in combinations
    ]
    truths: Truths = np.array(holds, np.bool_)[codes]
    return truths


def has_ruled_code(codes: pa.ChunkedArray) -> Truths:
    """Return, for each list of codes, true if rules use one of them."""
    has_code = np.zeros(len(codes), np.bool_)
    at = np.flatnonzero(codes.is_valid().to_numpy())
    has_code[at] = [any(code in BOOK.weirds for code in own) for own in codes.take(pa.array(at)).to_pylist()]
    return has_code

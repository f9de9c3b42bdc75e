"""Numbers for groups and members of captures, to join rows of all tables."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column


def keys() -> dict[str, Column]:
    """Return the number columns. If two groups or members have the same number, both are suspicious or none."""
    return {"group": F.xxhash64("capture", "group_id"), "member": F.xxhash64("capture", "group_id", "member_id")}


def any_of(columns: Iterable[Column]) -> Column:
    """Return a column that is true if one of the columns is true."""
    return reduce(or_, (F.coalesce(column, F.lit(False)) for column in columns), F.lit(False))

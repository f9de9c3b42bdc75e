"""What a condition means, said a second time: a walk over its values, with nothing compiled."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET

from kshark.conditions import Condition
from kshark.conditions.comparisons import Compare, Contains, Matches, OneOf, Present, Value
from kshark.conditions.condition import And, Not, Or, Truth
from kshark.conditions.elements import AnyOf
from kshark.conditions.terms import Const, F, Size, Sum
from kshark.conditions.versions import ByVersion

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def holds(condition: Condition, row: Any, version: int = 0) -> bool:  # noqa: C901  # one kind of condition a case
    match condition:
        case Truth(truth):
            return truth
        case And(items):
            return all(holds(item, row, version) for item in items)
        case Or(items):
            return any(holds(item, row, version) for item in items)
        case Not(item):
            return not holds(item, row, version)
        case ByVersion(cases):
            return any(version in versions and holds(part, row, version) for versions, part in cases)
        case AnyOf(array, part):
            return any(holds(part, element, version) for element in value(array, row) or ())
        case Present(term):
            return value(term, row) is not None
        case Compare(sign, left, right):
            return _both(_OPERATORS[sign], value(left, row), value(right, row))
        case OneOf(term, values):
            return any(_both(operator.eq, value(term, row), each) for each in values)
        case Contains(term, part):
            return _both(operator.contains, value(term, row), part)
        case Matches(term, pattern):
            return _both(
                lambda text, sought: re.search(sought, text, re.IGNORECASE) is not None, value(term, row), pattern
            )
    raise AssertionError(condition)


def value(term: Value, row: Any) -> Any:
    match term:
        case Const(constant):
            return constant
        case F(name):
            for part in name.split("."):
                row = getattr(row, part, None)
            return None if row is UNSET else row
        case Size(array):
            return len(value(array, row) or ())
        case Sum(sign, left, right):
            sides = value(left, row), value(right, row)
            return None if None in sides else sides[0] + sides[1] * (1 if sign == "+" else -1)
    return None if row is UNSET else row


def _both(test: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    return left is not None and right is not None and test(left, right)

"""One test of a filter, for terms of any type: its text becomes a condition where its value fits."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from kshark.conditions.comparisons import Compare
from kshark.conditions.condition import Condition, either
from kshark.conditions.expressions import searching
from kshark.conditions.literals import ADDRESS, BYTES, STRUCTURE, TEXT, Literal, ValueType
from kshark.conditions.message import Made, lies_in
from kshark.conditions.syntax import Comparison, Range
from kshark.conditions.terms import Term, term
from kshark.errors import FilterError, UsageError


class FieldTest(Struct, frozen=True):
    """An `operator` with its values, tested on some occurrence of a field.

    Operators on all occurrences are composed of these.
    """

    asked: Comparison
    operator: str

    def of(self, value: Term, type: ValueType) -> Condition:
        """Return the condition on one value. Raises FilterError if values of that type do not fit."""
        if self.operator == "present":
            return value.present()
        self._check(type)
        match self.operator:
            case "in":
                return either([self._within(value, type, entry) for entry in self.asked.values])
            case "matches":
                return value.matches(self._pattern(type))
            case "contains":
                part = (BYTES if type is BYTES else TEXT).constant(self._literal, self.asked.field)
                return value.contains(part)
        return self._compared(self.operator, value, type, self._literal)

    @property
    def _literal(self) -> Literal:
        (literal,) = self.asked.values
        assert isinstance(literal, Literal)
        return literal

    @property
    def description(self) -> str:
        """The test, nearly as the user typed it."""
        values = " ".join(
            entry.text if isinstance(entry, Literal) else f"{entry[0].text}..{entry[1].text}"
            for entry in self.asked.values
        )
        return f"{self.asked.field} {self.operator}" + (f" {values}" if values and self.operator != "present" else "")

    def _check(self, type: ValueType) -> None:
        field, operator, at = self.asked.field, self.asked.operator, self.asked.operator_at
        if type is STRUCTURE:
            raise FilterError(
                f"{field} has no single value; name a field in it", at, "the name alone tests that it is present"
            )
        if self.operator not in type.operators:
            raise FilterError(
                f"{operator} does not fit {field}, which has {type.name}", at, f"it allows {' '.join(type.operators)}"
            )

    def _compared(self, operator: str, value: Term, type: ValueType, literal: Literal) -> Condition:
        constant = type.constant(literal, self.asked.field)
        if type is ADDRESS:
            lies = Made(f"{literal.text} has address", lies_in(*constant), value).is_true()
            return ~lies if operator == "!=" else lies
        return Compare(operator, value, term(constant))

    def _within(self, value: Term, type: ValueType, entry: Literal | Range) -> Condition:
        if isinstance(entry, Literal):
            return self._compared("==", value, type, entry)
        low, high = (type.constant(end, self.asked.field) for end in entry)
        if type is ADDRESS:
            return Made(f"{low[0]} to {high[1]} has address", lies_in(low[0], high[1]), value).is_true()
        return Compare(">=", value, term(low)) & Compare("<=", value, term(high))

    def _pattern(self, type: ValueType) -> Any:
        literal = self._literal
        pattern = literal.text.encode("utf-8", "backslashreplace") if type is BYTES else literal.text
        try:
            searching(pattern)
        except UsageError as error:
            raise FilterError(
                str(error), literal.at, "its syntax is RE2's: no look-around, no back-references"
            ) from None
        return pattern

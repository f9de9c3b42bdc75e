"""The grammar of display filters, a part of wireshark-filter(4).

filter      tests joined with or, and, not: as in C (`||` `&&` `!` `(` `)`) or in English (`or` `and` `not`)
test        FIELD alone: it is present;  FIELD OPERATOR VALUE;  FIELD in {VALUE LOW..HIGH ...};  FIELD not in {...}
OPERATOR    == != < <= > >= contains matches, or eq ne lt le gt ge and ~;
            ~= or any_ne: some occurrence differs;  === or all_eq: all are equal
VALUE       a word, or text in quotes with \\" \\\\ \\n \\r \\t \\0 \\xHH; a regular expression in quotes has no escapes
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kshark.conditions.condition import And, Condition, Not, Or
from kshark.conditions.literals import Literal
from kshark.errors import FilterError

#: Deepest nesting of brackets and negations.
NESTING: Final = 64

_TOKEN: Final = re.compile(
    r"""(?P<quoted>r?"(?:[^"\\]|\\.)*"|r?'(?:[^'\\]|\\.)*')
      | (?P<sign>===|==|!=|~=|<=|>=|&&|\|\||[<>!~(){},])
      | (?P<word>[^\s"'<>=!~(){},&|]+)
      | (?P<space>\s+)""",
    re.VERBOSE | re.DOTALL,
)
_OPERATORS: Final = {
    **{sign: sign for sign in ("==", "!=", "<", "<=", ">", ">=", "contains", "matches")},
    **{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "~": "matches"},
    **{"any_ne": "~=", "~=": "~=", "all_eq": "===", "===": "==="},
}
_JOINED: Final = {"and": "and", "&&": "and", "or": "or", "||": "or"}
_NEGATED: Final = ("not", "!")
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_AS_IN: Final = "as in kafka.api == ShareFetch && kafka.error_code > 0"

Range = tuple[Literal, Literal]


class Comparison(NamedTuple):
    """A test of a field: `operator` is "present", "in", "not in" or a sign; only sets have several values."""

    field: str
    at: int
    operator: str
    operator_at: int
    values: tuple[Literal | Range, ...] = ()


class Token(NamedTuple):
    """A word, a sign or a quoted text; `kind` is empty at the end."""

    kind: str
    text: str
    at: int


def parse(text: str, condition_of: Callable[[Comparison], Condition]) -> Condition:
    """Parse a filter; `condition_of` makes the condition of each test.

    Raises FilterError with the position of the mistake.
    """
    return _Parser(text, condition_of).whole()


class _Parser:
    """Parse the tokens, from left to right."""

    def __init__(self, text: str, condition_of: Callable[[Comparison], Condition]) -> None:
        self._tokens = list(_tokens(text))
        self._next = 0
        self._depth = 0
        self._condition_of = condition_of

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self, *texts: str) -> Token | None:
        """Return and skip the next token if it is one of these words or signs."""
        token = self._token
        if token.kind == "quoted" or token.text not in texts:
            return None
        self._next += 1
        return token

    def whole(self) -> Condition:
        condition = self._or()
        if self._token.kind:
            raise self._unexpected()
        return condition

    def _or(self) -> Condition:
        items = [self._and()]
        while self._take("or", "||"):
            items.append(self._and())
        return items[0] if len(items) == 1 else Or(tuple(items))

    def _and(self) -> Condition:
        items = [self._not()]
        while self._take("and", "&&"):
            items.append(self._not())
        return items[0] if len(items) == 1 else And(tuple(items))

    def _not(self) -> Condition:
        token = self._take(*_NEGATED, "(")
        if token is None:
            return self._test()
        self._depth += 1
        if self._depth > NESTING:
            raise FilterError(
                f"more than {NESTING} nested brackets and negations",
                token.at,
                "write it with fewer brackets",
            )
        if token.text in _NEGATED:
            condition: Condition = Not(self._not())
        else:
            condition = self._or()
            if self._take(")") is None:
                if self._token.kind:
                    raise self._unexpected()
                raise FilterError('"(" is not closed', token.at, 'write ")" where it ends')
        self._depth -= 1
        return condition

    def _test(self) -> Condition:
        field = self._token
        if field.kind != "word" or field.text in _OPERATORS or field.text in _JOINED or field.text == "in":
            raise self._unexpected("a field")
        self._next += 1
        token = self._take(*_OPERATORS)
        if token is not None:
            operator = _OPERATORS[token.text]
            values: tuple[Literal | Range, ...] = (self._value(raw=operator == "matches"),)
            return self._condition_of(Comparison(field.text, field.at, operator, token.at, values))
        negated = (
            self._token.text == "not"
            and self._tokens[self._next + 1 : self._next + 2]
            and self._tokens[self._next + 1].text == "in"
        )
        if negated:
            self._next += 1
        token = self._take("in")
        if token is None:
            return self._condition_of(Comparison(field.text, field.at, "present", field.at))
        operator = "not in" if negated else "in"
        return self._condition_of(Comparison(field.text, field.at, operator, token.at, self._set()))

    def _set(self) -> tuple[Literal | Range, ...]:
        opened = self._token
        if self._take("{") is None:
            raise self._unexpected('"{"', "as in kafka.api_key in {78 79} or tcp.port in {9092 19092..19099}")
        values: list[Literal | Range] = []
        while self._take("}") is None:
            if not self._token.kind:
                raise FilterError('"{" is not closed', opened.at, 'write "}" after the last value')
            values.append(self._value_or_range())
            self._take(",")
        if not values:
            raise FilterError("the set is empty", opened.at, "as in kafka.api_key in {78 79}")
        return tuple(values)

    def _value_or_range(self) -> Literal | Range:
        low = self._value()
        first, dots, last = low.text.partition("..") if not low.quoted else (low.text, "", "")
        if not dots:
            following = self._token
            if following.kind != "word" or not following.text.startswith("..") or following.text == "..":
                if self._take("..") is None:
                    return low
                return low, self._value()
            self._next += 1
            return low, Literal(following.text[2:], following.at + 2)
        low_value = Literal(first, low.at)
        return low_value, Literal(last, low.at + len(first) + 2) if last else self._value()

    def _value(self, *, raw: bool = False) -> Literal:
        token = self._token
        if token.kind == "quoted":
            self._next += 1
            return _unquoted(token, raw=raw)
        if token.kind != "word" or token.text in _JOINED:
            raise self._unexpected("a value")
        self._next += 1
        return Literal(token.text, token.at)

    def _unexpected(self, wanted: str = "", step: str = _AS_IN) -> FilterError:
        token = self._token
        if not token.kind:
            return FilterError(f"the filter ends, but {wanted or 'something'} must follow", token.at, step)
        if wanted:
            return FilterError(f"{_shown(token)} stands where {wanted} must stand", token.at, step)
        if token.text == ")":
            return FilterError('")" has no matching "("', token.at, step)
        return FilterError(
            f"{_shown(token)} stands where the filter or a bracket must end, or && or || must follow", token.at, step
        )


def _shown(token: Token) -> str:
    return token.text if token.kind == "quoted" else f'"{token.text}"'


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _no_token(text, at)
        if match.lastgroup and match.lastgroup != "space":
            yield Token(match.lastgroup, match[0], at)
        at = match.end()
    yield Token("", "", len(text))


def _no_token(text: str, at: int) -> FilterError:
    sign = text[at]
    if sign in "\"'":
        return FilterError("the quotation mark is not closed", at, f"write {sign} where it ends")
    meant = {"=": "==", "&": "&&", "|": "||"}[sign]
    return FilterError(f'"{sign}" is not an operator; did you mean "{meant}"?', at, _AS_IN)


def _unquoted(token: Token, *, raw: bool) -> Literal:
    raw = raw or token.text.startswith("r")
    mark, inside = token.text[-1], token.text.removeprefix("r")[1:-1]
    if raw:
        return Literal(inside.replace("\\" + mark, mark), token.at, True)
    text = re.sub(
        r"\\(x[0-9a-fA-F]{2}|.)", lambda match: _ESCAPES.get(match[1]) or _escaped(match[1]), inside, flags=re.DOTALL
    )
    return Literal(text, token.at, True)


def _escaped(what: str) -> str:
    return chr(int(what[1:], 16)) if len(what) == 3 else what if what in "\\\"'" else "\\" + what

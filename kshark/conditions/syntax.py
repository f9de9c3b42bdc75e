"""The words of a display filter, and how they are joined. Source of the grammar: wireshark-filter(4), of which this is
a part.

filter      or of and of not of a test, as in C (`||` `&&` `!` `(` `)`) or in English (`or` `and` `not`) test
FIELD, alone: it is there;  FIELD OPERATOR VALUE;  FIELD in {VALUE LOW..HIGH ...}, FIELD not in {...} OPERATOR    == !=
< <= > >= contains matches, or eq ne lt le gt ge and ~; ~= or any_ne: some occurrence differs; === or all_eq VALUE
a word, or text in quotes with \\" \\\\ \\n \\r \\t \\0 \\xHH; a regular expression stands in quotes as it is"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kshark.conditions.condition import And, Condition, Not, Or
from kshark.conditions.literals import Literal
from kshark.errors import FilterError

#: Brackets and negations inside each other.
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
    """A field and what is said of it: `operator` is "present", "in", "not in" or a sign; only sets have several
    values."""

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
    """The condition that a filter says; each test is made by `condition_of`. Raises FilterError with the place of what
    is wrong."""
    return _Parser(text, condition_of).whole()


class _Parser:
    """Goes through the tokens once."""

    def __init__(self, text: str, condition_of: Callable[[Comparison], Condition]) -> None:
        self._tokens = list(_tokens(text))
        self._next = 0
        self._depth = 0
        self._condition_of = condition_of

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self, *texts: str) -> Token | None:
        """The next token if it is one of these words or signs."""
        token = self._token
        if token.kind == "quoted" or token.text not in texts:
            return None
        self._next += 1
        return token

    def whole(self) -> Condition:
        found = self._or()
        if self._token.kind:
            raise self._unexpected()
        return found

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
                f"more than {NESTING} brackets and negations inside each other",
                token.at,
                "write it without some of them",
            )
        if token.text in _NEGATED:
            found: Condition = Not(self._not())
        else:
            found = self._or()
            if self._take(")") is None:
                if self._token.kind:
                    raise self._unexpected()
                raise FilterError('"(" is not closed', token.at, 'write ")" where it ends')
        self._depth -= 1
        return found

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
        found: list[Literal | Range] = []
        while self._take("}") is None:
            if not self._token.kind:
                raise FilterError('"{" is not closed', opened.at, 'write "}" behind the last value')
            found.append(self._value_or_range())
            self._take(",")
        if not found:
            raise FilterError("a set without a value", opened.at, "as in kafka.api_key in {78 79}")
        return tuple(found)

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
            return FilterError(f"the filter ends where {wanted or 'something'} was to follow", token.at, step)
        if wanted:
            return FilterError(f"{_shown(token)} stands where {wanted} was to follow", token.at, step)
        if token.text == ")":
            return FilterError('")" closes nothing', token.at, step)
        return FilterError(
            f"{_shown(token)} stands where the filter or a bracket was to end, or && or || to follow", token.at, step
        )


def _shown(token: Token) -> str:
    return token.text if token.kind == "quoted" else f'"{token.text}"'


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _no_token(text, at)
        if found.lastgroup and found.lastgroup != "space":
            yield Token(found.lastgroup, found[0], at)
        at = found.end()
    yield Token("", "", len(text))


def _no_token(text: str, at: int) -> FilterError:
    sign = text[at]
    if sign in "\"'":
        return FilterError("a text whose quotation mark is not closed", at, f"write {sign} where it ends")
    meant = {"=": "==", "&": "&&", "|": "||"}[sign]
    return FilterError(f'"{sign}" is no operator; did you mean "{meant}"?', at, _AS_IN)


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

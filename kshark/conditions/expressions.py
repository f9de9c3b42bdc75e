"""Regular expressions as users type them, in RE2's syntax: its time is linear in the text, so none can hang on what
comes from the wire.

Upper and lower case are alike, of bytes those of ASCII. What needs backtracking is refused: look-around and
back-references."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from kshark.errors import UsageError

#: Tokens that Java reads otherwise, or that hide what looks like one: quoted text, escapes, named groups, sets, `$`.
_TOKEN: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\(\?P<|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\$", re.DOTALL)
_IN_SET: Final = re.compile(r"\\.|\[:\^?\w+:\]|\[|&&", re.DOTALL)
#: In Java `$` lets a line feed follow, letters of every script are words to `\b`, `\w` knows no long s and no sign of
#: Kelvin, which are s and k in capitals, and sets lie in sets.
_IN_JAVA: Final = {
    "(?P<": "(?<",
    "$": r"\z",
    r"\b": r"(?:(?<=\w)(?!\w)|(?<!\w)(?=\w))",
    r"\B": r"(?:(?<=\w)(?=\w)|(?<!\w)(?!\w))",
    r"\w": r"[\w\x{17f}\x{212a}]",
    r"\W": r"[^\w\x{17f}\x{212a}]",
}
_SETS_IN_JAVA: Final = {"[": r"\[", "&&": r"&\&"}


def searching(pattern: str | bytes) -> Callable[[Any], bool]:
    """Whether the expression is found in a text, or in bytes. Raises UsageError for what is none."""
    import re2  # takes 12 ms, and few need it

    options = re2.Options()
    options.case_sensitive = options.log_errors = False
    options.never_capture = True
    if isinstance(pattern, bytes):
        options.encoding = re2.Options.Encoding.LATIN1
    try:
        search = re2.compile(_encoded(pattern), options).search
    except re2.error as error:
        raise UsageError(f"no regular expression: {error.args[0].decode(errors='backslashreplace')}") from None
    if isinstance(pattern, bytes):
        return lambda data: search(data) is not None
    return lambda text: search(_encoded(text)) is not None


def _encoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def in_java(pattern: str | bytes) -> str:
    """The same expression for Java, which Spark uses; of bytes for their text in Latin-1. Raises UsageError for what is
    none."""
    searching(pattern)
    text, flags = (pattern.decode("latin-1"), "di") if isinstance(pattern, bytes) else (pattern, "diu")
    many_lines = re.search(r"\(\?\w*m", text) is not None  # then `$` is the end of a line to both
    return f"(?{flags})" + _TOKEN.sub(
        lambda found: found[0] if many_lines and found[0] == "$" else _java(found[0]), text
    )


def _java(token: str) -> str:
    if token.startswith("["):
        return "[" + _IN_SET.sub(_in_set, token[1:])
    return _IN_JAVA.get(token, token)


def _in_set(found: re.Match[str]) -> str:
    token = found[0]
    if token.startswith("[:"):
        raise UsageError(f"Spark reads {token} otherwise: write out which characters are meant")
    return _SETS_IN_JAVA.get(token, token)

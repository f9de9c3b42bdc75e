"""Regular expressions typed by users, in RE2's syntax.

RE2 takes time linear in the text, so no expression can hang on captured data. Upper and lower case are equal; in bytes
only ASCII letters. RE2 rejects what needs backtracking: look-around and back-references.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from kshark.errors import UsageError

#: Tokens with another meaning in Java, and tokens that may contain such ones: quoted text, escapes, named groups, sets,
#: `$`.
_TOKEN: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\(\?P<|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\$", re.DOTALL)
_IN_SET: Final = re.compile(r"\\.|\[:\^?\w+:\]|\[|&&", re.DOTALL)
#: Differences of Java: `$` also matches before a final line feed; `\b` treats letters of every script as word letters;
#: `\w` does not match the long s and the Kelvin sign, which equal s and k without case; sets may contain sets.
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
    """Compile a test that is true if the expression matches in a text, or in bytes.

    Raises UsageError for an invalid expression.
    """
    import re2  # the import takes 12 ms and is rarely needed

    options = re2.Options()
    options.case_sensitive = options.log_errors = False
    options.never_capture = True
    if isinstance(pattern, bytes):
        options.encoding = re2.Options.Encoding.LATIN1
    try:
        search = re2.compile(_encoded(pattern), options).search
    except re2.error as error:
        raise UsageError(f"invalid regular expression: {error.args[0].decode(errors='backslashreplace')}") from None
    if isinstance(pattern, bytes):
        return lambda data: search(data) is not None
    return lambda text: search(_encoded(text)) is not None


def _encoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def in_java(pattern: str | bytes) -> str:
    """Return the same expression in Java's syntax, for Spark.

    An expression for bytes is meant for their text in Latin-1. Raises UsageError for an invalid expression.
    """
    searching(pattern)
    text, flags = (pattern.decode("latin-1"), "di") if isinstance(pattern, bytes) else (pattern, "diu")
    many_lines = re.search(r"\(\?\w*m", text) is not None  # `$` then means the end of a line in both
    return f"(?{flags})" + _TOKEN.sub(
        lambda match: match[0] if many_lines and match[0] == "$" else _java(match[0]), text
    )


def _java(token: str) -> str:
    if token.startswith("["):
        return "[" + _IN_SET.sub(_in_set, token[1:])
    return _IN_JAVA.get(token, token)


def _in_set(match: re.Match[str]) -> str:
    token = match[0]
    if token.startswith("[:"):
        raise UsageError(f"Spark gives {token} another meaning: list the characters instead")
    return _SETS_IN_JAVA.get(token, token)

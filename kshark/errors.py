"""Errors that kshark raises: every error a caller can meet is a subclass of Error."""

from __future__ import annotations

from collections.abc import Iterable


class Error(Exception):
    """An operation that kshark rejects, in one sentence with the next step."""

    #: 2: bad usage or unreadable input. Commands that judge set 3 where nothing can be judged.
    exit_code: int = 2


class NothingJudged(UserWarning):
    """A capture has nothing that rules could judge, so that no finding does not mean that all is well."""


class UsageError(Error):
    """The command or call does not make sense; exit code 2."""


class FilterError(UsageError):
    """A display filter that cannot be parsed: the fault, the next step, and `at`, the position in its text from 0."""

    def __init__(self, wrong: str, at: int, step: str) -> None:
        text = f"{wrong} (character {at + 1} of the filter; {step})"
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in text))
        self.at = at


class UnreadableInput(Error):
    """The file is not a capture, or cannot be opened; exit code 2.

    `code` is the kind of fault in a word (the column of `faults`), `when` is the operation: hash or read.
    """

    code: str = "unreadable"
    when: str = "read"
    #: The file, if it was left out among several.
    file: str | None = None


class NoCapture(UnreadableInput):
    """The file can be read, but is not a capture."""

    code = "no_capture"


class NoPackets(NoCapture):
    """The input is a request log, and packets are needed."""


class Empty(NoCapture):
    """The file has no bytes."""


class Destroyed(NoCapture):
    """The file was a capture before a terminal, or a transfer as text, changed its bytes."""


class Damaged(UnreadableInput):
    """The file begins like a capture, but cannot be read further."""

    code = "damaged"


class Vanished(UnreadableInput):
    """The file does not exist, or not any more."""

    code = "vanished"


class Changed(UnreadableInput):
    """The file is not the same any more as when reading began."""

    code = "changed"


class WorkerLost(UnreadableInput):
    """The process that read the file was killed, each time it was tried."""

    code = "worker_lost"


class Failed(UnreadableInput):
    """A bug in kshark ended the reading of the file; the sentence names its place in the code."""

    code = "failed"


class Unwritable(UsageError):
    """The output cannot be written; exit code 2."""


class SchemaError(Error):
    """A dissector's schema is wrong; raised when it is imported."""


class DecodeError(Error):
    """A body does not match its schema.

    `code` is from the catalogue, `offset` in bytes from the body's start, `path` names the field.
    """

    def __init__(self, code: str, offset: int, path: str, detail: str = "") -> None:
        super().__init__(f"{code} at byte {offset}, field {path or '(none)'}{': ' + detail if detail else ''}")
        self.code = code
        self.offset = offset
        self.path = path
        self.detail = detail


class EncodeError(Error):
    """A value does not match the schema with which it is written."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"field {path or '(none)'}: {detail}")
        self.path = path


def close_to(word: str, words: Iterable[str]) -> str:
    """Return `; did you mean "read"?`, or an empty text if no word is similar.

    The shortest of the `words` that start with `word` comes first.
    """
    from difflib import get_close_matches  # 1 ms, rarely needed

    words = list(words)
    completions = sorted((candidate for candidate in words if len(word) > 2 and candidate.startswith(word)), key=len)
    matches = completions or get_close_matches(word, words, 1, 0.75)
    return f'; did you mean "{matches[0]}"?' if matches else ""

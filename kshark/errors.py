"""Errors that kshark raises: every error a caller can meet is a subclass of Error."""


class Error(Exception):
    """Anything kshark refuses to do, in one sentence with the next step."""


class UsageError(Error):
    """The command or call does not make sense; exit code 2."""


class FilterError(UsageError):
    """A display filter that cannot be read: what is wrong, the next step, and `at`, the place in its text from 0."""

    def __init__(self, wrong: str, at: int, step: str) -> None:
        told = f"{wrong} (character {at + 1} of the filter; {step})"
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in told))
        self.at = at


class UnreadableInput(Error):
    """The file is no capture, or cannot be opened; exit code 2.

    `code` says in a word what is wrong with it (the column of `faults`), `when` what was done with it: hash, index or
    read."""

    code: str = "unreadable"
    when: str = "read"


class NoCapture(UnreadableInput):
    """The file can be read, and is no capture."""

    code = "no_capture"


class Damaged(UnreadableInput):
    """The file begins as a capture does, and cannot be read on from there."""

    code = "damaged"


class Vanished(UnreadableInput):
    """There is no such file, or no more."""

    code = "vanished"


class Changed(UnreadableInput):
    """It is not the file any more that was begun."""

    code = "changed"


class SchemaError(Error):
    """A dissector's schema is wrong; raised when it is imported."""


class DecodeError(Error):
    """A body does not fit its schema: `code` from the catalogue, `offset` in bytes from its start, `path` of the
    field."""

    def __init__(self, code: str, offset: int, path: str, detail: str = "") -> None:
        super().__init__(f"{code} at byte {offset}, field {path or '(none)'}{': ' + detail if detail else ''}")
        self.code = code
        self.offset = offset
        self.path = path
        self.detail = detail


class EncodeError(Error):
    """A value does not fit the schema it is to be written with."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"field {path or '(none)'}: {detail}")
        self.path = path

"""`-a` and `-b` with tshark's meaning: when a capture ends, and when its next file begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kshark.errors import UsageError

_SECOND: Final = 1_000_000_000
#: Bytes of a kB, as tshark counts them.
_KILO: Final = 1000
_UNITS: Final = {
    "duration": "SECONDS",
    "interval": "SECONDS",
    "filesize": "KB",
    "files": "N",
    "packets": "N",
}
#: Conditions under which a file is full.
_FULL: Final = "duration:SECONDS, filesize:KB, packets:N or interval:SECONDS"


class Conditions(NamedTuple):
    """Conditions of one kind; None stands for those not given.

    `files`: with `-b` so many are kept, with `-a` so many are written.
    """

    duration_ns: int | None = None
    interval_ns: int | None = None
    filesize: int | None = None
    files: int | None = None
    packets: int | None = None


NO_CONDITIONS: Final = Conditions()


def autostop(texts: Iterable[str]) -> Conditions:
    """Parse the values of `-a`. Raises UsageError."""
    return _parsed("-a", texts, ("duration", "filesize", "files", "packets"))


def ring_buffer(texts: Iterable[str]) -> Conditions:
    """Parse the values of `-b`. Raises UsageError."""
    conditions = _parsed("-b", texts, ("duration", "filesize", "files", "packets", "interval"))
    if conditions == Conditions(files=conditions.files) and conditions.files is not None:
        raise UsageError(f"-b files:{conditions.files} keeps so many files; say when one is full: -b {_FULL}")
    return conditions


def need_conditions(output: str | None, ends: Conditions, full: Conditions) -> None:
    """Raise UsageError if conditions do not go with each other or with `-w`, whose value is `output`."""
    if full != NO_CONDITIONS and output is None:
        raise UsageError("-b is about the files of -w; name one with -w FILE")
    if full != NO_CONDITIONS and output == "-":
        raise UsageError("-b makes several files, and -w - is standard output; name a file with -w")
    if ends.filesize is not None and output is None:
        raise UsageError("-a filesize is about the file of -w; name one with -w FILE")
    if ends.files is not None and full == NO_CONDITIONS:
        raise UsageError(f"-a files counts the files of -b; say when one is full: -b {_FULL}")


def _parsed(option: str, texts: Iterable[str], names: tuple[str, ...]) -> Conditions:
    found: dict[str, int] = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if name not in names or not colon:
            known = ", ".join(f"{it}:{_UNITS[it]}" for it in names)
            raise UsageError(f"{option} {text} is not a condition; write one of {known}")
        found[name] = _value(option, text, name, value)
    kilobytes = found.get("filesize")
    return Conditions(
        found.get("duration"),
        found.get("interval"),
        None if kilobytes is None else kilobytes * _KILO,
        found.get("files"),
        found.get("packets"),
    )


def _value(option: str, text: str, name: str, value: str) -> int:
    """Return a positive number; of seconds those in nanoseconds."""
    try:
        number = round(float(value) * _SECOND) if name == "duration" else int(value)
    except (ValueError, OverflowError):
        number = 0
    if number <= 0:
        raise UsageError(f"{option} {text}: {value or 'nothing'} is not a positive number; write {name}:{_UNITS[name]}")
    return number * _SECOND if name == "interval" else number

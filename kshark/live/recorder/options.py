"""`--record` and `--on-violation`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from kshark.conditions.moments import duration_of
from kshark.errors import UsageError
from kshark.output.catalogue import CODES
from kshark.output.local_folder import local_folder
from kshark.units import duration, size

_SECOND: Final = 1_000_000_000
_BYTES: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
#: Fewer bytes hold too few packets: a batch of a busy interface has one million.
_LEAST_BYTES: Final = 16_000_000
_KEYS: Final = ("save", "before", "after", "per", "keep", "codes")
_FORM: Final = "--on-violation save=DIR,before=30s,after=5s,per=5m,keep=50"


class RecorderOptions(NamedTuple):
    """The packets that are held, and which of them are saved where.

    Around a violation, connections that ended `before_ns` earlier are left out; the packets of `after_ns` are awaited.
    Of one cause and member at most one recording is saved `per_ns`; only the last `keep` recordings stay. `codes`:
    findings that are saved whatever their verdict; empty: all violations.
    """

    folder: Path
    held_ns: int = 60 * _SECOND
    held_bytes: int = 10**9
    before_ns: int = 30 * _SECOND
    after_ns: int = 5 * _SECOND
    per_ns: int = 300 * _SECOND
    keep: int = 50
    codes: frozenset[str] = frozenset()


def recorder_options(record: str | None, on_violation: str | None) -> RecorderOptions | None:
    """Parse the values of `--record` and `--on-violation`; None without them. Raises UsageError."""
    if on_violation is None:
        if record is not None:
            raise UsageError(f"--record needs a folder for what it saves; add {_FORM}")
        return None
    values = _values(on_violation)
    options = RecorderOptions(
        local_folder(values["save"], "--on-violation save="),
        before_ns=_duration("before", values.get("before", "30s")),
        after_ns=_duration("after", values.get("after", "5s"), least=0),
        per_ns=_duration("per", values.get("per", "5m"), least=0),
        keep=_number(values.get("keep", "50")),
        codes=_codes(values.get("codes")),
    )
    options = options if record is None else _with_held(options, record)
    if options.before_ns + options.after_ns > options.held_ns:
        around = f"before={duration(options.before_ns)} and after={duration(options.after_ns)}"
        raise UsageError(f"{around} are more than the {duration(options.held_ns)} that --record holds; hold more")
    return options


def _values(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if key.strip() not in _KEYS or not equals or not value.strip():
            raise UsageError(f'--on-violation: "{part}" is not understood; write {_FORM}, or some of these')
        values[key.strip()] = value.strip()
    if "save" not in values:
        raise UsageError("--on-violation: no folder for what is saved; name one with save=DIR")
    return values


def _with_held(options: RecorderOptions, text: str) -> RecorderOptions:
    for part in map(str.strip, text.split(",")):
        match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([kMG]?)B", part)
        if match is not None:
            options = options._replace(held_bytes=round(float(match[1]) * _BYTES[match[2]]))
        else:
            options = options._replace(held_ns=_held_time(part))
    if options.held_bytes < _LEAST_BYTES:
        raise UsageError(f"--record {text}: {size(options.held_bytes)} hold too little; write at least 16MB")
    return options


def _held_time(text: str) -> int:
    try:
        held_ns = duration_of(text, "s")
    except ValueError:
        held_ns = 0
    if held_ns < _SECOND:
        raise UsageError(f'--record: "{text}" is neither seconds nor bytes; write --record 60s,1GB')
    return held_ns


def _duration(key: str, text: str, least: int = 1) -> int:
    try:
        found = duration_of(text, "s")
    except ValueError:
        found = -1
    if found < least:
        raise UsageError(f'--on-violation {key}: "{text}" is not a duration; write {key}=30s')
    return found


def _number(text: str) -> int:
    if not text.isdecimal() or not int(text[:9]) > 0 or len(text) > 9:
        raise UsageError(f'--on-violation keep: "{text}" is not a number from 1; write keep=50')
    return int(text)


def _codes(text: str | None) -> frozenset[str]:
    names = [] if text is None else [name.strip() for name in text.split("+")]
    for name in names:
        if name not in CODES:
            raise UsageError(f'--on-violation codes: no finding has the code "{name}"; kshark explain lists them')
    return frozenset(names)

"""`kshark explain` of an error code, and the errors of an API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from kshark.output.catalogue import EVERY_RULE
from kshark.output.entries import facts_lines, wrapped_lines
from kshark.output.spans import API, CODE, DIM, GOOD, LABEL, PLAIN, WARN, Line, hanging
from kshark.registry import Registry
from kshark_dissectors.api_errors import EVERY_API, SENT, SINCE
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.error_causes import CAUSES, Cause
from kshark_dissectors.errors import MEANING, REMEDY, RETRIABLE
from kshark_dissectors.kips import KIPS

_OF_CLIENTS: Final = "no API of Kafka 3.8 and later: clients report it themselves, or earlier brokers sent it"


def error_lines(error: ErrorCode, registry: Registry) -> Iterator[Line]:
    """Return the page of an error code: whether a retry may help, which APIs send it, and why."""
    if error is ErrorCode.NONE:
        yield [("0 NONE", CODE), ("  no error", GOOD)]
        return
    retry = ("retriable", GOOD) if error in RETRIABLE else ("not retriable", WARN)
    yield [(f"{error.value} {error.name}", CODE), ("  ", PLAIN), retry]
    yield from wrapped_lines(MEANING[error])
    for (sender, level), causes in groupby(CAUSES.get(error, ()), key=lambda cause: (cause.sender, cause.level)):
        yield []
        yield [(f"{sender.name}, {level}", API)]
        for cause in causes:
            yield from (
                [(("  - " if index == 0 else "    ") + line[0][0], PLAIN)]
                for index, line in enumerate(wrapped_lines(cause.text))
            )
    if error in REMEDY:
        yield []
        yield [("what the client does  ", LABEL), (REMEDY[error], PLAIN)]
    yield []
    yield from facts_lines(
        ("sent by", ", ".join(_senders(error, registry)) or _OF_CLIENTS),
        ("rules", ", ".join(_rules(error))),
        ("brought by", ", ".join(f"KIP-{number} (kshark explain KIP-{number})" for number in _proposals(error))),
    )


def _senders(error: ErrorCode, registry: Registry) -> list[str]:
    """Return the APIs whose answers may carry an error, each with its versions unless all do."""
    if error in EVERY_API:
        return ["every API"]
    return [
        (registry.name(key) or str(key)) + (f" {SINCE[key, error]}+" if (key, error) in SINCE else "")
        for key, errors in SENT.items()
        if error in errors
    ]


def _rules(error: ErrorCode) -> list[str]:
    """Return the rules of the same name, and those whose example of a broken rule has an answer with this error."""
    answer = re.compile(rf"→ {error.value}\b")
    return [rule.code for rule in EVERY_RULE if rule.code == error.name or answer.search(rule.wrong)]


def _proposals(error: ErrorCode) -> list[int]:
    return [number for number, kip in KIPS.items() if error in kip.errors]


def errors_of(key: int) -> list[ErrorCode]:
    """Return the errors that answers of an API may carry, by number; none of an API outside Kafka."""
    return sorted({*SENT[key], *EVERY_API}) if key in SENT else []


def api_error_lines(key: int, width: int | None) -> Iterator[Line]:
    """Return the errors of an API, each with its meaning; nothing for APIs outside Kafka."""
    errors = errors_of(key)
    if not errors:
        return
    yield []
    yield [("errors", API), ("  that an answer may carry; kshark explain NUMBER says why", DIM)]
    wide = max(len(error.name) for error in errors)
    for error in errors:
        notes = [MEANING[error]]
        if error in RETRIABLE:
            notes.append("retriable")
        if (key, error) in SINCE:
            notes.append(f"version {SINCE[key, error]}+")
        head = f"  {error.value:>3} {error.name.ljust(wide)}  "
        yield from hanging([(head, LABEL), (" · ".join(notes), PLAIN)], width, len(head))


def error_object(error: ErrorCode, registry: Registry) -> dict[str, Any]:
    """Return an error as an object: `apis` None stands for every API."""
    return {
        "error_code": error.value,
        "error": error.name,
        "retriable": error in RETRIABLE,
        "meaning": MEANING.get(error, "no error"),
        "remedy": REMEDY.get(error),
        "apis": None
        if error in EVERY_API
        else [
            {"api_key": key, "api": registry.name(key), "since_version": SINCE.get((key, error), 0)}
            for key, errors in SENT.items()
            if error in errors
        ],
        "causes": [_cause_object(cause) for cause in CAUSES.get(error, ())],
        "rules": _rules(error),
        "kips": [f"KIP-{number}" for number in _proposals(error)],
    }


def _cause_object(cause: Cause) -> dict[str, Any]:
    return {"api_keys": list(cause.sender.apis), "level": cause.level, "cause": cause.text}


def api_error_objects(key: int) -> list[dict[str, Any]]:
    """Return the errors of an API as objects, with the causes that are known for this API."""
    return [
        {
            "error_code": error.value,
            "error": error.name,
            "since_version": SINCE.get((key, error), 0),
            "retriable": error in RETRIABLE,
            "meaning": MEANING[error],
            "causes": [
                {"level": cause.level, "cause": cause.text}
                for cause in CAUSES.get(error, ())
                if key in cause.sender.apis
            ],
        }
        for error in errors_of(key)
    ]

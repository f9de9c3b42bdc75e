"""The table of each API's errors: whole, without repetitions, and never contradicted by a capture."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kshark
from kshark_dissectors.api_errors import EVERY_API, SENT, SINCE
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.error_causes import CAUSES
from kshark_dissectors.errors import MEANING
from kshark_dissectors.index import INDEX
from tests.shared import CAPTURES, SHARED_CAPTURES, every, is_capture, sample_of, shared

KEYS = {name: key for key, (name, _, _) in INDEX.items()}
BUNDLED = sorted(path for path in CAPTURES.glob("*.pcap*") if is_capture(path))


def test_the_table_is_whole_and_says_nothing_twice() -> None:
    assert set(SENT) == set(INDEX)
    for key, errors in SENT.items():
        assert len({*errors, *EVERY_API}) == len(errors) + len(EVERY_API), INDEX[key][0]
    assert all(error in MEANING for errors in SENT.values() for error in errors)


def test_a_first_version_is_one_that_the_api_has() -> None:
    for (key, error), first in SINCE.items():
        assert error in SENT[key]
        low, _, high = INDEX[key][2].partition("-")
        assert int(low) < first <= int(high), (INDEX[key][0], error)


def test_a_cause_is_of_apis_that_send_the_error() -> None:
    for error, causes in CAUSES.items():
        for cause in causes:
            assert error in EVERY_API or all(error in SENT[key] for key in cause.sender.apis), (error, cause)


def test_every_error_of_a_real_answer_is_in_the_table() -> None:
    seen = {answer for path in BUNDLED for answer in answers(path)}
    assert len(seen) > 50
    assert {answer for answer in seen if not is_known(*answer)} == set()


@pytest.mark.parametrize(
    "path", every(sample_of(SHARED_CAPTURES, min(40, len(SHARED_CAPTURES)), 1)), ids=lambda path: path and path.name
)
def test_errors_in_other_captures_are_in_the_table(path: Path) -> None:
    assert {answer for answer in answers(path) if not is_known(*answer)} == set()


def is_known(api: str, version: int, code: int) -> bool:
    error, key = ErrorCode(code), KEYS[api]
    return error in EVERY_API or (error in SENT[key] and version >= SINCE.get((key, error), 0))


def answers(path: Path) -> Iterator[tuple[str, int, int]]:
    for message in kshark.read(str(path)):
        if message.kind == "response" and message.api in KEYS and isinstance(message.body, dict):
            yield from ((message.api, message.version, code) for code in errors_in(message.body.items()))


def errors_in(items: Iterable[tuple[str, Any]]) -> Iterator[int]:
    """The error codes at any depth, without those of a message inside (Envelope)."""
    for name, value in items:
        if name.endswith("error_code") and value:
            yield value
        elif not name.endswith("_decoded"):
            for element in value if isinstance(value, list) else [value]:
                if isinstance(element, dict):
                    yield from errors_in(element.items())


def test_kafkas_own_notes_are_kept() -> None:
    """Kafka's definitions list the errors of some APIs, with the first version."""
    folder = shared("kafka-messages", "trunk")
    noted = 0
    for path in sorted(folder.rglob("*Response.json")):
        key = KEYS.get(path.name.removesuffix("Response.json"))
        for name, version in re.findall(r"// - ([A-Z_]+) \(version (\d+)\+\)", path.read_text("utf-8")):
            error = ErrorCode[name]
            assert key is not None
            assert error in (*SENT[key], *EVERY_API), (path.name, name)
            assert SINCE.get((key, error), 0) <= max(int(version), int(INDEX[key][2].partition("-")[0])), (
                path.name,
                name,
            )
            noted += 1
    assert noted > 100

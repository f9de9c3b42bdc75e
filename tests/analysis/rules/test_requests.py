"""Mistakes that one exchange shows by itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.analysis.talks import INVALID_REQUEST, UNKNOWN_SERVER_ERROR, opened
from tests.conversation import Conversation, Member, findings


def test_brokers_before_4_1_took_that() -> None:
    talk = Conversation(release="4.0")
    talk.member("a").share_fetch(0, [0], acks=[(0, 4, 1)], version=0).answered()
    assert findings(talk) == []


@pytest.mark.parametrize("request_", [{"partitions": [0], "acks": [(0, 4, 1)]}, {"forget": [0]}, {}])
def test_a_closing_fetch_may_acknowledge_and_forget(request_: dict[str, Any]) -> None:
    talk = Conversation()
    opened(talk).share_fetch(-1, **request_).answered()
    assert findings(talk) == []


def test_a_member_id_of_36_characters() -> None:
    talk = Conversation()
    a = talk.member("a")
    Member(a.connection, "g", "x" * 36).share_fetch(0).answered()
    assert findings(talk) == []


@pytest.mark.parametrize(
    ("release", "name", "error", "told"),
    [
        ("4.1", "A" * 22, INVALID_REQUEST, []),
        ("4.1", "A" * 23, INVALID_REQUEST, ["not a UUID in URL-safe base64"]),
        ("4.0", "A" * 21 + "!", INVALID_REQUEST, ["not a UUID in URL-safe base64"]),
        ("4.1", "0blQGsIARzaZ/dgsqA4/cA", UNKNOWN_SERVER_ERROR, ['not a UUID in URL-safe base64, which has no "/"']),
        ("4.2", "0blQGsIARzaZ/dgsqA4/cA", 0, []),
        ("4.2", "A" * 23, INVALID_REQUEST, []),
        (None, "A" * 23, INVALID_REQUEST, []),
        ("4.2", None, INVALID_REQUEST, ["null"]),
        ("4.2", "", INVALID_REQUEST, ["0 characters long"]),
        ("4.2", "x" * 37, INVALID_REQUEST, ["37 characters long"]),
        ("4.2", "x" * 37, UNKNOWN_SERVER_ERROR, ["37 characters long"]),
        ("4.2", "x" * 37, 0, []),
        ("4.2", "x" * 37, 123, []),
    ],
)
def test_what_is_wrong_with_a_member_id(release: str | None, name: str | None, error: int, told: list[str]) -> None:
    talk = Conversation(release=release)
    a = talk.member("a", joined=False)
    Member(a.connection, "g", name).share_fetch(1, version=0 if release == "4.0" else 1).answered(error)  # type: ignore[arg-type]
    assert [
        it.argument.rpartition("its member id is ")[2] for it in findings(talk) if it.code == "MEMBER_ID_INVALID"
    ] == told

"""Bodies from their JSON: of the codec's classes where there are such."""

from __future__ import annotations

from msgspec import UNSET

from kshark.codec.shapes import shape_of
from kshark.registry import Registry
from kshark.tables.bodies import Bodies, JsonFields

HEARTBEAT = '{"group_id":"g","member_epoch":3,"assignment":7}'


def row(api_key: int | None, text: str | None, version: int | None = 1) -> dict[str, object]:
    return {"api_key": api_key, "api_version": version, "request_json": text, "response_json": text}


def test_a_body_is_of_the_class_that_the_codec_makes() -> None:
    api = Registry().api(76)
    assert api is not None
    body = Bodies().read(row(76, '{"group_id":"g","member_epoch":3}'), "request")
    assert type(body) is shape_of(api.request, 1).make
    assert (body.group_id, body.member_epoch, body.member_id) == ("g", 3, UNSET)


def test_what_is_no_such_body_is_read_all_the_same() -> None:
    bodies = Bodies()
    for given in (row(76, HEARTBEAT), row(76, HEARTBEAT, None), row(None, HEARTBEAT), row(32_000, HEARTBEAT)):
        body = bodies.read(given, "response")
        assert type(body) is JsonFields
        assert (body.assignment, body.member_epoch, body.member_id) == (7, 3, UNSET)


def test_a_body_that_was_not_read_is_none() -> None:
    assert Bodies().read(row(76, None), "request") is None

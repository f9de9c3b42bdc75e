"""The fast writer of bodies gives the bytes of the exact one, or leaves the body to it."""

from __future__ import annotations

import struct
from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest

from kshark.codec.shapes import shape_of
from kshark.errors import EncodeError
from kshark.registry import Registry
from kshark.requests.bodies import exactly
from kshark.requests.fast_path import NotOrdinary, struct_writer
from tests.requests.test_request_log import log_of

REGISTRY = Registry()
LOGS = ("adv-acks", "share-java-renew", "security-sasl", "streams-groups", "zk-old-clients", "produce-mix")
NOT_ORDINARY = (NotOrdinary, KeyError, TypeError, ValueError, OverflowError)


def bodies(name: str) -> list[tuple[Any, int, Any]]:
    """Return layout, version and value of each body of a log, but of equal kinds only some."""
    found, kinds = [], Counter[tuple[str, int]]()
    for line in log_of(name).splitlines():
        logged = msgspec.json.decode(line)
        head = logged["requestHeader"]
        api, version = REGISTRY.api(head["requestApiKey"]), head["requestApiVersion"]
        if api is None or version not in api.versions:
            continue
        for side, layout in (("request", api.request), ("response", api.layout("response", version, b"\0\0")[0])):
            kinds[side, head["requestApiKey"]] += 1
            if logged.get(side) and kinds[side, head["requestApiKey"]] < 40:
                found.append((layout, version, logged[side]))
    return found


def fast(layout: Any, version: int, value: Any) -> bytes | None:
    out = bytearray()
    try:
        struct_writer(shape_of(layout, version))(value, out)
    except (*NOT_ORDINARY, struct.error):
        return None
    return bytes(out)


def exact(layout: Any, version: int, value: Any) -> bytes | None:
    try:
        return exactly(shape_of(layout, version), layout, version, value)
    except EncodeError:
        return None


@pytest.mark.parametrize("name", LOGS)
def test_ordinary_bodies_are_written_alike(name: str) -> None:
    written = [(fast(*body), exact(*body)) for body in bodies(name)]
    assert [pair for pair in written if pair[0] not in (None, pair[1])] == []
    assert sum(pair[0] is not None for pair in written) > 0.9 * len(written)


def damaged(value: Any, chance: Random) -> Any:
    """Return the value with something changed that JSON may hold."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice([*value])
        if chance.random() < 0.2:
            return {key: item for key, item in value.items() if key != name}
        return value | {name + chance.choice(["", "", "", "x"]): damaged(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        return [*value[:at], damaged(value[at], chance), *value[at + 1 :]]
    return chance.choice([None, True, 0, -1, 1.5, 1 << 70, "x", "\ud800", [], {}, [None], "A" * 22, "A" * 40_000])


@pytest.mark.parametrize("name", LOGS)
def test_damaged_bodies_are_written_alike_or_not_at_all(name: str) -> None:
    chance = Random(name)
    for layout, version, value in chance.sample(cases := bodies(name), min(60, len(cases))):
        for _ in range(8):
            changed = damaged(value, chance)
            if not isinstance(changed, dict):
                continue  # bodies are objects
            assert fast(layout, version, changed) in (None, exact(layout, version, changed)), changed

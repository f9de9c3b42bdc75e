"""Ranges and shares of a capture, joined again, are the capture: every event in its place, every row, every finding."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from kshark.model import Event, PacketBatch
from kshark.parallel import segments
from kshark.pipeline import Options
from tests.shared import CAPTURES
from tests.shares import Told, as_one, capture_of, in_shares

NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap*"))
OPTIONS = (Options(records="headers", embedded=True), Options(records=False))


def plainly(event: Event) -> tuple[str, ...]:
    names = getattr(event, "__struct_fields__", None) or event.__slots__
    return (type(event).__name__, *(f"{name}={_value(getattr(event, name))}" for name in names if name not in ("request", "response")))


def _value(value: object) -> str:
    return str(getattr(value, "id", value))


@pytest.fixture(params=["hosts", "ports"])
def shared_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """These captures have one host: told apart by their ports too, connections are shared out more widely than they ever will be."""
    if request.param == "ports":
        monkeypatch.setattr(segments, "_share", by_ports)


def by_ports(keys: Any, shares: int) -> Any:
    return ((keys[4] & 0xFFFF) ^ (keys[4] >> 16 & 0xFFFF)).astype(np.int64) % shares


def assert_same(one: Told, other: Told) -> None:
    assert sorted((one.rows - other.rows).elements())[:3] == sorted((other.rows - one.rows).elements())[:3] == []
    assert [plainly(event) for event in other.events] == [plainly(event) for event in one.events]
    assert other.findings == one.findings


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("shared_by")
def test_what_is_shared_out_comes_to_the_same(name: str) -> None:
    random = Random(name)
    batches = capture_of(CAPTURES / name)
    last = sum(len(item.number) for item in batches if isinstance(item, PacketBatch))
    for options in OPTIONS:
        edges = sorted(random.sample(range(1, last), min(5, last - 1)))
        assert_same(as_one(batches, options), in_shares(batches, options, edges, random.choice([1, 2, 3, 5, 16]), random))

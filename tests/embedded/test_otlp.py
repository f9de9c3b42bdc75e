"""OTLP metrics: every kind of point and value, as OpenTelemetry's own classes wrote them once; damage is named, work is
bounded; without the package metrics stay bytes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshark import limits
from kshark.embedded.companions import companions
from kshark.embedded.otlp import is_installed, read_metrics
from kshark_dissectors.embedded.places import PLACES
from tests.examples import as_many

pytest.importorskip("opentelemetry.proto.metrics.v1", reason="opentelemetry-proto is not installed")

#: Written by opentelemetry-proto 1.x (MetricsData.SerializeToString) from the values in METRICS.
DATA = bytes.fromhex(
    "0aac030a150a130a0b636c69656e745f7261636b12040a027231128f030a0a0a056b61666b61120134127c0a0567617567651201641a0242792a6c0a6a190900"
    "00000000000031fbffffffffffffff3a070a0162120210013a100a0169120b18fdffffffffffffffff013a0e0a0164120921000000000000e03f3a100a016c12"
    "0b2a090a030a01780a0218073a120a016d120d320b0a090a016b12043a0200013a030a016e400112280a0373756d3a210a1b1101000000000000001902000000"
    "0000000021000000000000f83f10021801125c0a09686973746f6772616d4a4f0a4b210300000000000000290000000000001240321001000000000000000200"
    "0000000000003a08000000000000e03f420919000000000000224059000000000000f03f610000000000000040100112460a0b6578706f6e656e7469616c5237"
    "0a33210200000000000000290000000000000840300339010000000000000042070801120301ac024a02080871000000000000d03f100112330a0773756d6d61"
    "72795a280a26210100000000000000290000000000000040321209000000000000e03f1100000000000008401a0175"
)

ATTRIBUTES = {"b": True, "i": -3, "d": 0.5, "l": ["x", 7], "m": {"k": b"\x00\x01"}, "n": None}
EXPONENTIAL = {
    "count": 2,
    "sum": 3.0,
    "scale": -2,
    "zero_count": 1,
    "positive": {"offset": -1, "bucket_counts": [1, 300]},
    "negative": {"offset": 4},
    "zero_threshold": 0.25,
}
METRICS: dict[str, dict[str, Any]] = {
    "gauge": {"data_points": [{"time_unix_nano": 9, "as_int": -5, "attributes": ATTRIBUTES, "flags": 1}]},
    "sum": {
        "data_points": [{"start_time_unix_nano": 1, "time_unix_nano": 2, "as_double": 1.5}],
        "aggregation_temporality": 2,
        "is_monotonic": True,
    },
    "histogram": {
        "data_points": [
            {
                "count": 3,
                "sum": 4.5,
                "bucket_counts": [1, 2],
                "explicit_bounds": [0.5],
                "min": 1.0,
                "max": 2.0,
                "exemplars": [{"as_double": 9.0}],
            }
        ],
        "aggregation_temporality": 1,
    },
    "exponential_histogram": {"data_points": [EXPONENTIAL], "aggregation_temporality": 1},
    "summary": {"data_points": [{"count": 1, "sum": 2.0, "quantile_values": [{"quantile": 0.5, "value": 3.0}]}]},
}


def field(number: int, content: bytes) -> bytes:
    """A message or string inside a message."""
    size, left = b"", len(content)
    while left > 127:
        size, left = size + bytes((left & 127 | 128,)), left >> 7
    return bytes((number << 3 | 2,)) + size + bytes((left,)) + content


def test_every_kind_of_metric_is_read() -> None:
    read, wrong = read_metrics(DATA)
    assert read is not None
    (resource,) = read["resource_metrics"]
    assert (wrong, resource["schema_url"], resource["resource"]) == ("", "u", {"attributes": {"client_rack": "r1"}})
    (scope,) = resource["scope_metrics"]
    assert scope["scope"] == {"name": "kafka", "version": "4"}
    found = {kind: metric[kind] for metric in scope["metrics"] for kind in METRICS if kind in metric}
    assert found == METRICS
    assert scope["metrics"][0] | {"gauge": ...} == {"name": "gauge", "description": "d", "unit": "By", "gauge": ...}


def test_fields_of_later_releases_are_passed_over() -> None:
    metric = field(1, b"name") + field(15, b"?") + bytes((15 << 3 | 5, 1, 2, 3, 4)) + bytes((15 << 3, 0x80, 1))
    assert read_metrics(field(1, field(2, field(2, metric)))) == (
        {"resource_metrics": [{"scope_metrics": [{"metrics": [{"name": "name"}]}]}]},
        "",
    )


@pytest.mark.parametrize(
    "damaged",
    [
        DATA[:-1],
        b"\x0a\x80",
        b"\x0a" + b"\xff" * 11,
        field(1, field(2, field(2, field(9, field(1, field(6, b"1234567")))))),
        field(1, field(2, field(2, field(1, b"\xff")))),  # a name that is not UTF-8
    ],
)
def test_damage_is_named(damaged: bytes) -> None:
    read, wrong = read_metrics(damaged)
    assert read is None
    assert wrong.startswith("no OTLP metrics: ")


def test_values_inside_values_end_somewhere() -> None:
    value = b""
    for _ in range(60):
        value = field(5, field(1, value))
    assert read_metrics(field(1, field(1, field(1, field(2, value)))))[0] is None


@pytest.mark.parametrize(
    "many",
    [
        field(1, b"") * 1001,
        field(1, field(1, field(1, b"") * 1001)),
        field(1, field(1, field(1, field(2, field(5, field(1, b"") * 1001))))),
        field(1, field(2, field(2, field(9, field(1, field(7, bytes(8 * 1001))))))),
    ],
)
def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch, many: bytes) -> None:
    assert read_metrics(many)[1] == ""
    monkeypatch.setattr(limits, "TELEMETRY_VALUES", 1000)
    assert read_metrics(many) == (None, "no OTLP metrics: more than 1000 values")
    monkeypatch.setattr(limits, "TELEMETRY_BYTES", 1000)
    assert read_metrics(many) == (None, "more than 1000 bytes")


@given(st.binary(max_size=200), st.integers(0, len(DATA)), st.integers(0, 20))
@settings(max_examples=as_many(300))
def test_any_bytes_give_metrics_or_say_what_is_wrong(noise: bytes, at: int, gone: int) -> None:
    for data in (noise, DATA[:at] + noise + DATA[at + gone :]):
        read, wrong = read_metrics(data)
        assert (read is None) == bool(wrong)


# -- with and without the package


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
    is_installed.cache_clear()
    yield
    is_installed.cache_clear()


def opened(metrics: bytes) -> list[tuple[str, Any, str | None]]:
    body = {"compression_type": 0, "metrics": metrics}
    return [(one.name, one.value, one.code) for one in companions(PLACES[72, "request"], body)]


def test_a_push_has_its_metrics_beside_the_bytes() -> None:
    ((name, value, code),) = opened(DATA)
    assert (name, value, code) == ("metrics_decoded", {"name": "otlp", "data": read_metrics(DATA)[0]}, None)
    assert opened(DATA[:-1]) == [("metrics_decoded", None, "EMBEDDED_INVALID")]


@pytest.mark.usefixtures("not_installed")
def test_without_the_package_metrics_stay_bytes() -> None:
    assert opened(DATA) == opened(DATA[:-1]) == []

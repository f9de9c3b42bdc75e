"""OTLP metrics: every kind of point and value, as OpenTelemetry's own classes wrote them once; damage is named, work is
bounded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshark import limits
from kshark.embedded.otlp import read_metrics
from tests.examples import as_many

#: Written by opentelemetry-proto 1.x (MetricsData.SerializeToString) from the values in METRICS, and an exemplar that
#: is passed over.
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
            {"count": 3, "sum": 4.5, "bucket_counts": [1, 2], "explicit_bounds": [0.5], "min": 1.0, "max": 2.0}
        ],
        "aggregation_temporality": 1,
    },
    "exponential_histogram": {"data_points": [EXPONENTIAL], "aggregation_temporality": 1},
    "summary": {"data_points": [{"count": 1, "sum": 2.0, "quantile_values": [{"quantile": 0.5, "value": 3.0}]}]},
}


def field(number: int, content: bytes) -> bytes:
    """A message or string inside a message, shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(content))) + content


def test_every_kind_of_metric_is_read() -> None:
    read, wrong = read_metrics(DATA)
    (resource,) = read["resource_metrics"]
    assert (wrong, resource["schema_url"], resource["resource"]) == ("", "u", {"attributes": {"client_rack": "r1"}})
    (scope,) = resource["scope_metrics"]
    assert scope["scope"] == {"name": "kafka", "version": "4"}
    found = {kind: metric[kind] for metric in scope["metrics"] for kind in METRICS if kind in metric}
    assert found == METRICS
    assert scope["metrics"][0] | {"gauge": ...} == {"name": "gauge", "description": "d", "unit": "By", "gauge": ...}


def test_numbers_may_stand_one_by_one_instead_of_packed() -> None:
    one_by_one = b"".join(bytes((6 << 3 | 1, n, 0, 0, 0, 0, 0, 0, 0)) for n in (1, 2))
    data = field(1, field(2, field(2, field(9, field(1, one_by_one)))))
    (point,) = read_metrics(data)[0]["resource_metrics"][0]["scope_metrics"][0]["metrics"][0]["histogram"][
        "data_points"
    ]
    assert point == {"bucket_counts": [1, 2]}


def test_fields_of_later_releases_are_passed_over() -> None:
    later = (
        bytes((90 << 3 & 0x7F | 0x80, 90 >> 4, 5))
        + field(15, b"?")
        + bytes((15 << 3 | 5, 1, 2, 3, 4))
        + bytes((15 << 3, 0x80, 1))
    )
    metric = field(1, b"name") + later
    assert read_metrics(field(1, field(2, field(2, metric)))) == (
        {"resource_metrics": [{"scope_metrics": [{"metrics": [{"name": "name"}]}]}]},
        "",
    )


@pytest.mark.parametrize("size", range(1, len(DATA), 7))
def test_a_message_longer_than_what_is_there_is_not_begun(size: int) -> None:
    read, wrong = read_metrics(DATA[:size])
    assert (read, wrong[:7]) == ({}, "byte 0:" if size > 2 else "byte 1:")


def test_what_was_read_before_the_damage_is_kept() -> None:
    whole, broken = field(2, field(1, b"first")), field(2, field(1, b"second") + b"\x0b")
    (resource,) = read_metrics(field(1, field(2, whole + broken + whole)))[0]["resource_metrics"]
    assert resource == {"scope_metrics": [{"metrics": [{"name": "first"}, {"name": "second"}]}]}


@pytest.mark.parametrize(
    "damaged",
    [
        b"\x0b",  # a group, which protobuf gave up
        b"\x0a\x80",
        b"\x0a" + b"\xff" * 11,
        field(1, field(2, field(2, bytes((1 << 3, 1))))),  # a name that is a number
        field(1, field(2, field(2, field(9, field(1, field(6, b"1234567")))))),
        field(1, field(2, field(2, field(5, field(1, bytes((4 << 3 | 2, 0))))))),
    ],
)
def test_what_is_no_protobuf_is_named(damaged: bytes) -> None:
    assert read_metrics(damaged)[1].startswith("byte ")


def test_values_inside_values_end_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    value = b""
    for _ in range(60):
        value = field(5, field(1, value)) if len(value) < 100 else value
    deep = field(1, field(1, field(1, field(2, value))))
    assert "deep" in read_metrics(deep)[1]
    monkeypatch.setattr(limits, "TELEMETRY_VALUES", 1000)
    many = field(1, b"") * 1001
    assert "more than 1000 values" in read_metrics(many)[1]


@given(st.binary(max_size=200), st.integers(0, len(DATA)), st.integers(0, 20))
@settings(max_examples=as_many(300))
def test_any_bytes_give_metrics_or_say_what_is_wrong(noise: bytes, at: int, gone: int) -> None:
    for data in (noise, DATA[:at] + noise + DATA[at + gone :]):
        read, wrong = read_metrics(data)
        assert isinstance(read, dict)
        assert wrong == "" or wrong.startswith("byte ")

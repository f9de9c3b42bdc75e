"""Hashes of keys: the values of the producers' own libraries."""

from __future__ import annotations

import pytest

from kshark.records.partitioners import PARTITIONERS, fnv1a, murmur2

#: By key: Utils.murmur2 of Kafka 4.4.0.
MURMUR2 = {
    b"": 275646681,
    b"a": 2731586172,
    b"ab": 316155434,
    b"abc": 479470107,
    b"abcd": 2971317748,
    b"orders-17": 3521712955,
    "käse".encode(): 3224690541,
    b"0123456789abcdef": 1438427052,
}


@pytest.mark.parametrize("key", MURMUR2)
def test_murmur2_is_that_of_kafka(key: bytes) -> None:
    assert murmur2(key) == MURMUR2[key]
    assert PARTITIONERS["murmur2"](key, 7) == (MURMUR2[key] & 0x7FFFFFFF) % 7


def test_fnv1a_is_that_of_its_authors() -> None:
    assert (fnv1a(b""), fnv1a(b"a"), fnv1a(b"foobar")) == (0x811C9DC5, 0xE40C292C, 0xBF9CF968)


def test_sarama_takes_the_remainder_of_a_signed_number() -> None:
    """0xE40C292C is -468965076."""
    assert PARTITIONERS["fnv1a"](b"a", 10) == 6


def test_crc32_is_unsigned() -> None:
    assert PARTITIONERS["crc32"](b"123456789", 10) == 0xCBF43926 % 10

"""Hashes with which producers choose the partition of a key.

Source: Kafka's Utils.murmur2 and BuiltInPartitioner; librdkafka's rdcrc32 and rdfnv1a, rd_kafka_msg_partitioner_*;
sarama's hashPartitioner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from zlib import crc32

_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


def murmur2(key: bytes) -> int:
    """Return the hash of a key as an unsigned number of 32 bits."""
    size = len(key)
    hashed = _SEED ^ size
    for at in range(0, size - 3, 4):
        part = int.from_bytes(key[at : at + 4], "little") * _MULTIPLIER & _MASK
        part = (part ^ part >> 24) * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ part
    if rest := size % 4:
        hashed = (hashed ^ int.from_bytes(key[-rest:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


def fnv1a(key: bytes) -> int:
    """Return the hash of a key as an unsigned number of 32 bits."""
    hashed = 0x811C9DC5
    for byte in key:
        hashed = (hashed ^ byte) * 0x01000193 & _MASK
    return hashed


def _by_murmur2(key: bytes, count: int) -> int:
    return (murmur2(key) & _POSITIVE) % count


def _by_crc32(key: bytes, count: int) -> int:
    return crc32(key) % count


def _by_fnv1a(key: bytes, count: int) -> int:
    """Return sarama's choice: the remainder of a signed number, without its sign."""
    hashed = fnv1a(key)
    return (hashed if hashed <= _POSITIVE else _MASK + 1 - hashed) % count


#: By name: the partition of a key, given the number of partitions.
PARTITIONERS: Final[dict[str, Callable[[bytes, int], int]]] = {
    "murmur2": _by_murmur2,
    "crc32": _by_crc32,
    "fnv1a": _by_fnv1a,
}

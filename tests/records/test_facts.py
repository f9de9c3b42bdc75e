"""Small facts of records that ordinary batches do not show: bits beyond a varint, offsets that stay, gzip members,
control types."""

from __future__ import annotations

import gzip
from struct import pack

import crc32c as package
import numpy as np
import pytest

from kshark.records import Record, compression
from kshark.records.control import read_control
from kshark.records.crc import crc32c
from kshark.records.loop import VARINT, VARLONG
from kshark.records.loop import signed as one_signed
from kshark.records.rows import signed as many_signed
from kshark.records.writer import write_batch
from tests.records.opening import NEVER, NOW, codes, opened


@pytest.mark.parametrize(
    ("data", "longest", "value"),
    [
        (b"\xff\xff\xff\xff\x0f", VARINT, -(1 << 31)),
        (b"\xfe\xff\xff\xff\x0f", VARINT, (1 << 31) - 1),
        (b"\xff\xff\xff\xff\x7f", VARINT, -(1 << 31)),
        (b"\xfe\xff\xff\xff\x1f", VARINT, (1 << 31) - 1),
        (b"\xff\xff\xff\xff\x1f", VARLONG, -(1 << 32)),
        (b"\xff" * 9 + b"\x01", VARLONG, -(1 << 63)),
        (b"\xfe" + b"\xff" * 8 + b"\x7f", VARLONG, (1 << 63) - 1),
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else str(value),
)
def test_bits_beyond_a_varints_own_are_dropped_as_in_java(data: bytes, longest: int, value: int) -> None:
    """Kafka: ByteUtils.readVarint shifts into an int of 32 bits, readVarlong into one of 64."""
    assert one_signed(data, 0, len(data), longest) == (value, len(data))
    values, ends = many_signed(np.frombuffer(data, np.uint8), np.array([0]), longest)
    assert (values.tolist(), ends.tolist()) == ([value], [len(data)])


@pytest.mark.parametrize("columns_from", [0, NEVER])
@pytest.mark.parametrize(
    ("offsets", "told"), [((5, 6, 7), []), ((5, 5, 6), ["BATCH_OFFSETS"]), ((5, 7, 6), ["BATCH_OFFSETS"])]
)
def test_offsets_in_a_batch_rise(columns_from: int, offsets: tuple[int, ...], told: list[str]) -> None:
    """Two records of one offset are as wrong as two that run backwards; both are shown."""
    data = write_batch([Record(offset, NOW, None, b"", ()) for offset in offsets], last_offset_delta=2)
    assert codes(data, columns_from=columns_from) == told
    field, _ = opened(data, columns_from=columns_from)
    assert [record.offset for record in field.batches[0].records] == list(offsets)


def test_a_gzip_member_that_ends_with_a_piece_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed bytes are looked at piece by piece; several members are read as one (RFC 1952, section 2.2)."""
    first, second = gzip.compress(b"first"), gzip.compress(b"second")
    monkeypatch.setattr(compression, "GZIP_PIECE", len(first))
    for data, text in ((first + second, b"firstsecond"), (first, b"first")):
        room = bytearray(100)
        assert bytes(room[: compression.decompress_into(compression.GZIP, memoryview(data), memoryview(room))]) == text


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "abort"),
        (1, "commit"),
        (2, "leader_change"),
        (3, "snapshot_header"),
        (4, "snapshot_footer"),
        (5, "kraft_version"),
        (6, "kraft_voters"),
    ],
)
def test_types_of_control_records(number: int, name: str) -> None:
    """Kafka: ControlRecordType."""
    control = read_control(pack(">hh", 0, number), pack(">hi", 3, 9))
    assert control is not None
    assert control.type == name
    assert (control.version == 3, control.coordinator_epoch == 9) == ((True, True) if number < 2 else (False, False))


def test_the_checksum_is_the_package_s_own() -> None:
    assert crc32c()(b"123456789") == package.crc32c(b"123456789") == 0xE3069283

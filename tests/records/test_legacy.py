"""Message sets of magic 0 and 1, plain and wrapped."""

from __future__ import annotations

from struct import pack

import pytest
from msgspec import UNSET

from kshark import limits
from kshark.records.writer import COMPRESS, raw_snappy, write_batch, write_message, write_wrapper
from tests.records.opening import NOW, codes, opened, people, plain


def test_messages_of_magic_0_have_no_timestamps():
    data = write_message(7, b"k", b"v", magic=0) + write_message(8, None, None, magic=0)
    field, carrier = opened(data)

    first, second = plain(field)["batches"]
    assert first == {
        "base_offset": 7,
        "size": 28,
        "magic": 0,
        "crc": int.from_bytes(data[12:16]),
        "crc_ok": True,
        "codec": "none",
        "records": [{"offset": 7, "key": "aw==", "value": "dg=="}],
    }
    assert second["records"] == [{"offset": 8, "key": None, "value": None}]
    assert carrier.weird == ["LEGACY_MAGIC"]


def test_messages_of_magic_1_have_a_timestamp_and_its_type():
    field, _ = opened(write_message(7, None, b"v", timestamp=NOW, timestamp_type="log_append"))
    (batch,) = plain(field)["batches"]
    assert batch["timestamp_type"] == "log_append"
    assert batch["records"] == [{"offset": 7, "timestamp": NOW, "key": None, "value": "dg=="}]


def offsets(data: bytes) -> list[int]:
    (batch,) = opened(data)[0].batches
    return [record.offset for record in batch.records]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_becomes_the_messages_inside_it(codec, magic):
    inside = range(50, 53) if magic == 0 else range(3)
    messages = [write_message(offset, b"k", b"v%d" % offset, magic=magic, timestamp=NOW + offset) for offset in inside]
    data = write_wrapper(52, messages, codec, magic=magic)
    field, carrier = opened(data)

    (batch,) = field.batches
    assert (batch.base_offset, batch.codec, batch.size) == (52, codec, len(data))
    assert [record.offset for record in batch.records] == [50, 51, 52]
    assert [record.timestamp for record in batch.records] == ([UNSET] * 3 if magic == 0 else [NOW, NOW + 1, NOW + 2])
    assert carrier.weird == ["LEGACY_MAGIC"]


def test_a_wrapper_with_offset_0_holds_absolute_offsets():
    messages = [write_message(offset, None, b"v") for offset in (0, 1, 2)]
    assert offsets(write_wrapper(0, messages, "gzip")) == [0, 1, 2]
    assert offsets(write_wrapper(2, messages, "gzip")) == [0, 1, 2]


def test_a_wrapper_whose_offset_is_too_small_keeps_those_inside():
    messages = [write_message(offset, None, b"v") for offset in (5, 6)]
    data = write_wrapper(3, messages, "gzip")
    assert codes(data) == ["BATCH_OFFSETS", "LEGACY_MAGIC"]
    assert offsets(data) == [5, 6]


def test_log_append_time_of_the_wrapper_is_the_messages_time():
    inside = b"".join(write_message(offset, None, b"v", timestamp=1) for offset in range(2))
    wrapper = write_message(1, None, COMPRESS["gzip"](inside), timestamp=NOW, codec="gzip", timestamp_type="log_append")
    (batch,) = opened(wrapper)[0].batches
    assert [record.timestamp for record in batch.records] == [NOW, NOW]


def test_raw_snappy_and_lz4_with_the_wrong_header_checksum():
    inside = b"".join(write_message(offset, None, b"value" * 30, magic=0) for offset in range(900))
    lz4 = bytearray(COMPRESS["lz4"](inside))
    lz4[6] ^= 0xA5
    for codec, packed in (("snappy", raw_snappy(inside)), ("lz4", bytes(lz4))):
        assert offsets(write_message(899, None, packed, magic=0, codec=codec)) == list(range(900))


@pytest.mark.parametrize(
    ("data", "expected", "records"),
    [
        (write_message(0, b"k", b"v", crc=1), ["BATCH_CRC"], 1),
        (write_message(0, b"k", b"v", codec="zstd"), ["CODEC_INVALID"], 0),
        (write_message(0, b"k", None, codec="gzip"), ["RECORD_INVALID"], 0),
        (write_message(0, b"k", b"no gzip", codec="gzip"), ["DECOMPRESSION_FAILED"], 0),
        (write_wrapper(0, [], "gzip"), [], 0),
        (
            write_wrapper(1, [write_message(0, None, b"v"), write_message(1, None, b"v", crc=5)], "gzip"),
            ["BATCH_CRC"],
            2,
        ),
        (
            write_wrapper(1, [write_message(0, None, b"v"), write_message(1, None, b"v", magic=0)], "gzip"),
            ["RECORD_INVALID"],
            1,
        ),
        (write_wrapper(1, [write_message(0, None, b"v"), b"cut off"], "gzip"), ["RECORD_INVALID"], 1),
        (write_wrapper(1, [write_wrapper(0, [], "gzip")], "gzip"), ["RECORD_INVALID"], 0),
        (pack(">qiIbbii", 0, 14, 0, 0, 0, 5, -1), ["BATCH_CRC", "RECORD_INVALID"], 0),
        (pack(">qiIbbii", 0, 14, 0, 0, 0, -1, 0)[:-1], [], None),  # partial
        (pack(">qiIbb", 0, 6, 0, 0, 0) + b"longer", ["BATCH_LENGTH_INVALID"], None),
    ],
)
def test_a_message_lies_and_what_was_readable_is_kept(data, expected, records):
    field, carrier = opened(data)
    assert sorted(set(() if carrier.weird is UNSET else carrier.weird) - {"LEGACY_MAGIC"}) == expected
    assert [len(batch.records) for batch in field.batches] == ([] if records is None else [records])
    assert sum(batch.size for batch in field.batches) + field.partial_bytes == len(data)


def test_old_messages_and_new_batches_in_one_field():
    field, carrier = opened(write_message(0, None, b"v", magic=0) + write_batch(people(2, first=1)))
    assert [[record.offset for record in batch.records] for batch in field.batches] == [[0], [1, 2]]
    assert carrier.weird == ["LEGACY_MAGIC"]


def test_without_payload_sizes_stand_in_its_place():
    field, _ = opened(write_message(3, b"key", None, magic=0), payload=False)
    assert plain(field)["batches"][0]["records"] == [{"offset": 3, "key_size": 3, "value_size": None}]


def test_more_messages_in_a_wrapper_than_one_message_may_have(monkeypatch):
    monkeypatch.setattr(limits, "MESSAGE_RECORDS", 10)
    data = write_wrapper(0, [write_message(offset, None, b"v") for offset in range(50)], "gzip")
    field, carrier = opened(data)
    assert carrier.weird == ["LEGACY_MAGIC", "RECORDS_LIMIT"]
    assert len(field.batches[0].records) == 9

"""Records fields: what they become, who gets their codes, and what is left when they lie."""

from __future__ import annotations

from struct import pack
from typing import Any

import msgspec
import pytest
from cramjam import zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from kshark import limits
from kshark.anomaly import CATALOGUE
from kshark.records import Record, RecordsReader, loop, make_reader
from kshark.records.writer import varint, write_batch, write_message, write_record
from tests.examples import as_many
from tests.records import strategies
from tests.records.opening import NEVER, NOW, codes, message, opened, people, plain


def test_a_batch_becomes_the_json_of_the_contract():
    record = Record(71, NOW + 2, b"k", None, (("trace", b"\x01\x02"), ("empty", None)))
    batch = write_batch(
        [Record(70, NOW, None, b"value", ()), record],
        partition_leader_epoch=3,
        producer_id=9,
        producer_epoch=1,
        base_sequence=40,
    )
    field, carrier = opened(batch)

    assert plain(field) == {
        "size": len(batch),
        "batches": [
            {
                "base_offset": 70,
                "size": len(batch),
                "partition_leader_epoch": 3,
                "magic": 2,
                "crc": int.from_bytes(batch[17:21]),
                "crc_ok": True,
                "codec": "none",
                "timestamp_type": "create",
                "transactional": False,
                "control": False,
                "last_offset_delta": 1,
                "base_timestamp": NOW,
                "max_timestamp": NOW + 2,
                "producer_id": 9,
                "producer_epoch": 1,
                "base_sequence": 40,
                "count": 2,
                "records": [
                    {"offset": 70, "timestamp": NOW, "key": None, "value": "dmFsdWU=", "headers": []},
                    {
                        "offset": 71,
                        "timestamp": NOW + 2,
                        "key": "aw==",
                        "value": None,
                        "headers": [["trace", "AQI="], ["empty", None]],
                    },
                ],
            }
        ],
        "partial_bytes": 0,
    }
    assert carrier.weird is UNSET


@pytest.mark.parametrize("columns_from", [0, NEVER])
def test_without_payload_sizes_stand_in_its_place(columns_from):
    batch = write_batch([Record(0, NOW, b"key", None, (("a", b"12345"), ("b", None))), Record(1, NOW, None, b"", ())])
    field, _ = opened(batch, payload=False, columns_from=columns_from)

    assert plain(field)["batches"][0]["records"] == [
        {"offset": 0, "timestamp": NOW, "key_size": 3, "value_size": None, "headers": [["a", 5], ["b", None]]},
        {"offset": 1, "timestamp": NOW, "key_size": None, "value_size": 0, "headers": []},
    ]


def test_unopened_a_field_is_its_size():
    reader = make_reader(records=False, payload=True)
    assert plain(reader(b"....garbage", 4, 11)) == {"size": 7}
    assert not reader.unclaimed


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_of_batches_whose_headers_are_read_the_records_stay_closed(codec):
    batch = write_batch(people(3), codec=codec)
    told, carrier = opened(batch + batch[:40], opened="headers")
    whole, _ = opened(batch + batch[:40])
    whole.batches[0].records = []
    assert told == whole
    assert carrier.weird is UNSET


@settings(max_examples=100)
@given(strategies.batches(), st.integers(0, 40))
def test_counted_records_are_those_of_the_headers(data: bytes, cut: int) -> None:
    """A last batch that is cut off does not count; the field that begins with one has none."""
    data += data[:cut]
    counted = make_reader("counted", payload=False)(data, 0, len(data))
    opened_field = make_reader("headers", payload=False)(data, 0, len(data))
    assert counted.size == opened_field.size
    batches = opened_field.batches or []
    expected = sum(batch.count if hasattr(batch, "count") else len(batch.records) for batch in batches)
    told = (
        counted.count
        if counted.count is not UNSET
        else sum(batch.count if hasattr(batch, "count") else len(batch.records) for batch in counted.batches)
    )
    assert told == expected


def test_what_a_batchs_header_tells_is_wrong_is_told_without_opening_it():
    assert codes(lie(crc=1, count=3), opened="headers") == ["BATCH_CRC"]


def test_an_answer_ends_inside_its_last_batch():
    whole = write_batch(people(3))
    field, carrier = opened(whole + whole[:40])

    assert [len(batch.records) for batch in field.batches] == [3]
    assert field.partial_bytes == 40
    assert carrier.weird is UNSET


def test_log_append_time_is_every_records_time():
    batch = write_batch(people(3), timestamp_type="log_append", max_timestamp=NOW + 500)
    for columns_from in (0, NEVER):
        (read,) = opened(batch, columns_from=columns_from)[0].batches
        assert read.timestamp_type == "log_append"
        assert [record.timestamp for record in read.records] == [NOW + 500] * 3


def test_a_delete_horizon_is_told():
    (read,) = plain(opened(write_batch(people(1), delete_horizon=True))[0])["batches"]
    assert read["delete_horizon"] is True
    assert "delete_horizon" not in plain(opened(write_batch(people(1)))[0])["batches"][0]


def test_control_records_say_what_they_control():
    marker = Record(5, NOW, pack(">hh", 0, 1), pack(">hi", 0, 12), ())
    leader = Record(6, NOW, pack(">hh", 0, 2), b"\0\0", ())
    later = Record(7, NOW, pack(">hh", 0, 99), None, ())
    (batch,) = plain(opened(write_batch([marker, leader, later], control=True))[0])["batches"]

    assert [record["control"] for record in batch["records"]] == [
        {"type": "commit", "version": 0, "coordinator_epoch": 12},
        {"type": "leader_change"},
        {"type": "99"},
    ]
    assert codes(write_batch([Record(5, NOW, b"\0", None, ())], control=True)) == ["RECORD_INVALID"]


def test_header_keys_that_are_no_text_are_escaped():
    record = b"\0" + varint(0) + varint(0) + varint(-1) + varint(-1) + varint(1) + varint(2) + b"\xff!" + varint(-1)
    batch = write_batch([], raw_records=varint(len(record)) + record, count=1)
    for columns_from in (0, NEVER):
        assert list(opened(batch, columns_from=columns_from)[0].batches[0].records[0].headers[0]) == ["\\xff!", None]


def lie(**facts):
    return write_batch(people(2), **facts)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (lie(crc=1), ["BATCH_CRC"]),
        (lie(attributes=6), ["CODEC_INVALID"]),
        (lie(crc=1) + lie(attributes=6, codec="gzip"), ["BATCH_CRC", "CODEC_INVALID"]),
        (write_message(0, None, b"old"), ["LEGACY_MAGIC"]),
        (lie(count=3), []),
        (lie(attributes=1), []),
        (write_batch(people(3)) + write_batch(people(3, 3))[:70], []),  # answers of Fetch end inside a batch
    ],
)
def test_what_is_only_checked_stays_closed(data: bytes, told: list[str]) -> None:
    """The same is told of it as of its headers."""
    assert codes(data, opened="checked") == codes(data, opened="headers") == told
    assert plain(opened(data, opened="checked")[0]) == {"size": len(data)}


@pytest.mark.parametrize("opening", ["checked", "headers", True])
def test_a_producer_gives_an_offset_to_each_record(opening: Any) -> None:
    for batch, told in ((lie(last_offset_delta=9), ["BATCH_COUNT_MISMATCH"]), (lie(), [])):
        assert codes(batch, opened=opening, produced=True) == told
        assert codes(batch, opened=opening) == []


def broken_record(data: bytes) -> bytes:
    return write_batch(
        [], raw_records=write_record(people(1)[0], 0, NOW) + data, count=2, last_offset_delta=1, base_timestamp=NOW
    )


@pytest.mark.parametrize(
    ("data", "expected", "records"),
    [
        (lie(crc=1), ["BATCH_CRC"], 2),
        (lie(count=3), ["BATCH_COUNT_MISMATCH"], 2),
        (lie(count=1), ["BATCH_COUNT_MISMATCH"], 2),
        (lie(count=2**31 - 1), ["BATCH_COUNT_MISMATCH"], 2),
        (lie(count=-1), ["BATCH_COUNT_MISMATCH"], 2),
        (lie(count=0), ["BATCH_COUNT_MISMATCH"], 2),
        (lie(last_offset_delta=0), ["BATCH_OFFSETS"], 2),
        (lie(last_offset_delta=9), [], 2),
        (write_batch(reversed(people(2)), last_offset_delta=1), ["BATCH_OFFSETS"], 2),
        (lie(attributes=6), ["CODEC_INVALID"], 0),
        (lie(attributes=1), ["DECOMPRESSION_FAILED"], 0),
        (lie(attributes=2), ["DECOMPRESSION_FAILED"], 0),
        (lie(attributes=3), ["DECOMPRESSION_FAILED"], 0),
        (lie(attributes=4), ["DECOMPRESSION_FAILED"], 0),
        (broken_record(varint(400) + b"short"), ["RECORD_INVALID"], 1),
        (broken_record(varint(-3) + b"negative"), ["RECORD_INVALID"], 1),
        (broken_record(b"\xff" * 6 + b"long varint"), ["RECORD_INVALID"], 1),
        (broken_record(varint(0)), ["RECORD_INVALID"], 1),
        (broken_record(b"\x0e\0\0\2\x7f\1\0"), ["RECORD_INVALID"], 1),  # a varint cut off by the record's end
        (broken_record(varint(8) + b"\0\0\2\1\1" + varint(300) + b"."), ["RECORD_INVALID"], 1),  # 300 headers
        (broken_record(varint(8) + b"\0\0\2\1\1\2\1\0"), ["RECORD_INVALID"], 1),  # a header without key
        (broken_record(varint(7) + b"\0\0\2\1\1\0!"), ["RECORD_INVALID"], 1),  # a byte behind the headers
        (lie(length=9), ["BATCH_LENGTH_INVALID"], None),
        (lie(length=-5), ["BATCH_LENGTH_INVALID"], None),
        (lie(length=5000), ["BATCH_LENGTH_INVALID"], None),
        (lie(magic=3), ["MAGIC_UNKNOWN"], 0),
        (b"tiny", [], None),
        (b"", [], None),
        (write_batch([]), [], 0),
    ],
)
@pytest.mark.parametrize("columns_from", [0, NEVER])
def test_a_batch_lies_and_what_was_readable_is_kept(data, expected, records, columns_from):
    field, carrier = opened(data, columns_from=columns_from)

    assert sorted(() if carrier.weird is UNSET else carrier.weird) == expected
    assert [len(batch.records) for batch in field.batches] == ([] if records is None else [records])
    assert sum(batch.size for batch in field.batches) + field.partial_bytes == len(data)
    assert (carrier.detail is UNSET) == (not expected)


def test_codes_go_to_the_message_that_carries_the_batch():
    reader = RecordsReader()
    good, bad = write_batch(people(40)), write_batch(people(40), count=41)
    carriers = [message() for _ in range(4)]
    for carrier, data in zip(carriers, (good, bad, write_batch(people(1), crc=0), good), strict=True):
        reader(data, 0, len(data))
        assert reader.unclaimed
        reader.claim(carrier)
    reader.fill()

    assert [carrier.weird for carrier in carriers] == [UNSET, ["BATCH_COUNT_MISMATCH"], ["BATCH_CRC"], UNSET]
    assert carriers[1].detail == "BATCH_COUNT_MISMATCH: batch at offset 0: 41 records announced, 40 present"


def test_a_code_is_put_on_a_message_once():
    carrier = message()
    carrier.weird, carrier.detail = ["RESYNC"], "found again"
    reader = RecordsReader()
    data = write_batch(people(1), crc=0)
    reader(data * 3, 0, 3 * len(data))
    reader.claim(carrier)

    assert carrier.weird == ["RESYNC", "BATCH_CRC"]
    assert carrier.detail == "found again; BATCH_CRC: batch at offset 0"


def test_what_was_read_in_vain_is_discarded():
    reader = RecordsReader()
    good, bad = write_batch(people(2)), write_batch(people(2), count=7, crc=0)
    kept = reader(good, 0, len(good))
    first, second = message(), message()
    reader.claim(first)
    dropped = reader(bad, 0, len(bad))
    reader.discard()
    assert not reader.unclaimed
    again = reader(good, 0, len(good))
    reader.claim(second)
    reader.fill()

    assert (first.weird, second.weird) == (UNSET, UNSET)
    assert [len(field.batches[0].records) for field in (kept, dropped, again)] == [2, 0, 2]


def test_pending_bytes_are_those_of_the_opened_records():
    reader = RecordsReader()
    data = write_batch(people(500), codec="gzip")
    reader(data, 0, len(data))
    assert reader.pending_bytes > 500 * 7 > len(data) / 3
    reader.fill()
    assert reader.pending_bytes == 0


def test_more_decompressed_than_is_held_at_once_is_read_all_the_same(monkeypatch):
    monkeypatch.setattr(limits, "PENDING_RECORD_BYTES", 1000)
    reader = RecordsReader()
    data = b"".join(write_batch(people(30, first=30 * i), codec="lz4") for i in range(20))
    field = reader(data, 0, len(data))
    reader.fill()
    assert [record.offset for batch in field.batches for record in batch.records] == list(range(600))


def test_a_batch_that_grows_beyond_the_limit_stays_closed(monkeypatch):
    monkeypatch.setattr(limits, "DECOMPRESSED_BYTES", 100_000)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        bomb = write_batch([Record(0, NOW, None, bytes(1_000_000), ())], codec=codec)
        field, carrier = opened(bomb + write_batch(people(1), codec=codec))
        assert carrier.weird == ["DECOMPRESSION_LIMIT"]
        assert [len(batch.records) for batch in field.batches] == [0, 1]


def test_the_batches_of_one_message_share_a_limit(monkeypatch):
    monkeypatch.setattr(limits, "MESSAGE_RECORD_BYTES", 5000)
    batch = write_batch(people(100), codec="zstd")
    field, carrier = opened(batch * 5)
    assert carrier.weird == ["DECOMPRESSION_LIMIT"]
    assert [len(batch.records) for batch in field.batches] == [100, 100, 0, 0, 0]
    reader = RecordsReader()
    for _ in range(5):  # five messages
        reader(batch, 0, len(batch))
        carrier = message()
        reader.claim(carrier)
        assert carrier.weird is UNSET


@pytest.mark.parametrize("columns_from", [0, NEVER])
def test_more_records_than_one_message_may_have_are_left_and_said_so(monkeypatch, columns_from):
    monkeypatch.setattr(limits, "MESSAGE_RECORDS", 50)
    data = write_batch(people(30)) * 3
    field, carrier = opened(data, columns_from=columns_from)
    assert carrier.weird == ["RECORDS_LIMIT"]
    assert [len(batch.records) for batch in field.batches] == [30, 0, 0]
    field, carrier = opened(write_batch([]) * 80)
    assert carrier.weird == ["RECORDS_LIMIT"]
    assert len(field.batches) == 50
    assert field.partial_bytes == 30 * 61


HEADERS = (("k", b"v"),) * 20_000


@pytest.mark.parametrize("columns_from", [0, NEVER])
@pytest.mark.parametrize(
    "data",
    [
        write_batch([Record(at, NOW, None, None, HEADERS) for at in range(2)], codec="zstd"),
        write_batch([Record(at, NOW, None, None, HEADERS[:60]) for at in range(800)], codec="zstd"),
        write_batch(
            [],
            count=100_000,
            last_offset_delta=99_999,
            codec="zstd",
            raw_records=bytes(zstd.compress(b"\x0c" + bytes(6))),
        ),
        write_batch([], count=1, codec="zstd", raw_records=bytes(zstd.compress((b"\x0c" + bytes(6)) * 100_000))),
        write_batch([], count=100_000, codec="zstd", raw_records=bytes(zstd.compress((b"\x0c" + bytes(6)) * 100_000))),
    ],
    ids=["many headers", "headers of many records", "a count", "more than the count", "many records"],
)
def test_little_that_comes_is_not_made_large(columns_from, data):
    field, carrier = opened(data, columns_from=columns_from)
    records = field.batches[0].records
    assert len(records) + sum(
        len(record.headers) for record in records
    ) <= limits.ANY_RECORDS + limits.RECORDS_PER_BYTE * len(data)
    assert {"RECORDS_LIMIT", "BATCH_COUNT_MISMATCH"} & set(carrier.weird)


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("headers", [0, 3])
def test_what_a_producer_may_write_is_opened_however_well_it_is_compressed(codec, headers):
    records = [Record(at, NOW, None, None, (("k", b"v"),) * headers) for at in range(20_000)]
    field, carrier = opened(write_batch(records, codec=codec))
    assert carrier.weird is UNSET
    assert len(field.batches[0].records) == 20_000


def test_what_one_message_holds_is_not_counted_against_the_next(monkeypatch):
    monkeypatch.setattr(limits, "MESSAGE_RECORDS", 50)
    reader = RecordsReader()
    for first in (0, 40, 80):
        data, carrier = write_batch(people(40, first)), message()
        field = reader(data, 0, len(data))
        reader.fill()
        reader.claim(carrier)
        reader.fill()
        assert (carrier.weird, len(field.batches[0].records)) == (UNSET, 40)


def test_a_count_far_too_small_shows_some_of_the_rest(monkeypatch):
    monkeypatch.setattr(loop, "SURPLUS", 5)
    for columns_from in (0, NEVER):
        field, carrier = opened(write_batch(people(50), count=2), columns_from=columns_from)
        assert len(field.batches[0].records) == 7
        assert carrier.detail == "BATCH_COUNT_MISMATCH: batch at offset 0: 2 records announced, more than 7 present"


def test_a_false_count_costs_no_memory():
    for count in (2**31 - 1, -(2**31)):
        for columns_from in (0, NEVER):
            assert "BATCH_COUNT_MISMATCH" in codes(lie(count=count), columns_from=columns_from)


@given(st.lists(strategies.batches(), min_size=1, max_size=5), st.integers(0, 60))
@settings(max_examples=as_many(40))
def test_sizes_add_up(batches, cut):
    data = b"".join(batches)
    field, _ = opened(data[: len(data) - cut])
    assert sum(batch.size for batch in field.batches) + field.partial_bytes == field.size == len(data) - cut


sources = st.lists(strategies.batches(most=6), min_size=1, max_size=3).map(b"".join) | st.binary(max_size=120)
legacy = st.builds(
    write_message, st.just(3), st.none() | st.binary(max_size=9), st.binary(max_size=60), magic=st.sampled_from([0, 1])
)


@given(strategies.damaged(sources | legacy))
@settings(max_examples=as_many(80))
def test_damage_gives_declared_codes_and_the_same_both_ways(data):
    loop, columns = opened(data, columns_from=NEVER), opened(data, columns_from=0)

    assert plain(loop[0]) == plain(columns[0])
    assert loop[1].weird == columns[1].weird
    assert loop[1].detail == columns[1].detail
    weird = () if loop[1].weird is UNSET else loop[1].weird
    assert all(CATALOGUE[code].group == "records" for code in weird)
    assert sum(batch.size for batch in loop[0].batches) + loop[0].partial_bytes == len(data)
    msgspec.json.encode(opened(data, payload=False)[0])


@given(st.integers(0, 600), st.integers(0, 600))
def test_a_piece_of_a_snapshot_is_never_wrong(first: int, last: int):
    whole = [write_batch(people(4, 4 * i), codec=("none", "gzip")[i % 2]) for i in range(4)]
    data = b"".join(whole)
    ends = [sum(map(len, whole[: i + 1])) for i in range(4)]
    first, last = sorted((min(first, len(data)), min(last, len(data))))
    field, carrier = opened(data[first:last], aligned=False)
    begun = first in (0, *ends)
    there = [end for end in ends if first < end <= last] if begun else []
    assert carrier.weird is UNSET
    assert [batch.base_offset for batch in field.batches] == [4 * ends.index(end) for end in there]
    assert field.partial_bytes == last - (there[-1] if there else first)


def test_a_snapshot_that_ends_inside_its_first_batch_is_no_wrong_length():
    batch = write_batch(people(3))
    assert codes(batch[:70]) == ["BATCH_LENGTH_INVALID"]
    assert codes(batch[:70], aligned=False) == []

"""Records fields: batches in every codec and legacy sets, damaged inside and outside; the same by columns, by the loop
and one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import msgspec
from msgspec import UNSET

from kshark.anomaly import CATALOGUE
from kshark.model import Message
from kshark.records import Record, RecordsField, RecordsReader
from kshark.records.writer import COMPRESS, raw_snappy, write_batch, write_message, write_record, write_wrapper
from tests.fuzz.kind import Broken, Kind, Seen, shorter, shorter_bytes
from tests.fuzz.mutating import mutated
from tests.records.opening import NEVER, NOW, message

#: Ways of opening that come to the same.
WAYS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"columns_from": 0},
    {"columns_from": NEVER},
    {"alone": True},
    {"columns_from": 0, "alone": True},
)
#: Other ways, of which it is enough that they tell the same of what is wrong, or nothing.
OTHERS: Final[tuple[dict[str, Any], ...]] = ({"payload": False}, {"opened": "headers"}, {"opened": "checked"})
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class Fields(msgspec.Struct):
    """Records fields of one message each, read one after the other and filled together."""

    fields: list[bytes]
    produced: bool
    aligned: bool


class Records(Kind[Fields]):
    name = "records"
    case = Fields
    share = 1.5

    def make(self, random: Random) -> Fields:
        whole = [
            b"".join(_entry(random) for _ in range(random.choice((1, 1, 2, 5))))
            for _ in range(random.choice((1, 1, 3, 40)))
        ]
        often = random.choice((0, 0.2, 1))
        return Fields(
            [mutated(it, random, whole) if random.random() < often else it for it in whole],
            random.random() < 0.5,
            random.random() < 0.9,
        )

    def check(self, case: Fields) -> Seen:
        first, *others = (_said(case, **way) for way in WAYS)
        for way, said in zip(WAYS[1:], others, strict=True):
            if said != first:
                raise Broken(
                    "records are opened in two ways, to different things", f"{way}: {said!r:.900} and {first!r:.900}"
                )
        for way in OTHERS:
            _said(case, **way)
        codes = Counter(code for _, weird, _ in first for code in weird)
        if unknown := codes.keys() - CATALOGUE.keys():
            raise Broken("a code is not in the catalogue", unknown)
        return Seen(len(case.fields), sum(map(len, case.fields)), codes)

    def smaller(self, case: Fields) -> Iterator[Fields]:
        for fields in shorter(case.fields):
            yield Fields(fields, case.produced, case.aligned)
        if len(case.fields) == 1:
            yield from (Fields([data], case.produced, case.aligned) for data in shorter_bytes(case.fields[0]))


def _said(case: Fields, **how: Any) -> list[tuple[bytes, list[str], str]]:
    """Each field as a line of JSON, with the codes and details that its message gets."""
    reader = RecordsReader(**how)
    done: list[tuple[RecordsField, Message]] = []
    for data in case.fields:
        carrier = message(produced=case.produced)
        done.append((reader(b"before" + data + b"behind", 6, 6 + len(data), case.aligned), carrier))
        reader.claim(carrier)
    reader.fill()
    return [
        (
            msgspec.json.encode(field),
            [] if it.weird is UNSET else sorted(it.weird),
            "" if it.detail is UNSET else it.detail,
        )
        for field, it in done
    ]


def _entry(random: Random) -> bytes:
    """A batch or a legacy message; now and then damaged inside its compression, or in its header with everything else
    right."""
    if random.random() < 0.15:
        return _legacy(random)
    records, codec = _some_records(random), random.choice(CODECS)
    wrong: dict[str, Any] = {}
    if random.random() < 0.3:
        content = mutated(b"".join(write_record(it, records[0].offset, NOW) for it in records), random)
        wrong = {"raw_records": _compressed(codec, content, random), "base_timestamp": NOW}
    if random.random() < 0.1:
        name = random.choice(("count", "last_offset_delta", "length", "attributes", "magic", "base_timestamp"))
        small = name == "magic"
        wrong[name] = random.choice((-1, 0, 1, 2, 7, 100, 127) if small else (-1, 0, 1, 7, 61, 10_000, 32_767))
    return write_batch(
        records,
        codec=codec,
        timestamp_type=random.choice(("create", "log_append")),
        transactional=random.random() < 0.2,
        control=random.random() < 0.1,
        delete_horizon=random.random() < 0.1,
        **wrong,
    )


def _compressed(codec: str, content: bytes, random: Random) -> bytes:
    """Also without snappy's framing, as several gzip members, and damaged."""
    data = raw_snappy(content) if codec == "snappy" and random.random() < 0.5 else COMPRESS[codec](content)
    if codec == "gzip" and random.random() < 0.2:
        data += COMPRESS[codec](b"")
    return mutated(data, random) if random.random() < 0.5 else data


def _some_records(random: Random) -> list[Record]:
    offset, made = random.choice((0, 5, 1 << 40)), []
    for _ in range(random.choice((1, 1, 2, 5, 90))):
        headers = tuple(
            (f"h{random.randrange(3)}", random.choice((None, b"x" * random.randrange(9))))
            for _ in range(random.choice((0, 0, 2)))
        )
        key, value = (
            random.choice((None, b"", b"key")),
            random.choice((None, b"", b"value" * random.randrange(40), random.randbytes(9))),
        )
        made.append(Record(offset, NOW + random.choice((0, 0, 3, -7, 1 << 40)), key, value, headers))
        offset += random.choice((1, 1, 1, 9))
    return made


def _legacy(random: Random) -> bytes:
    magic = random.randrange(2)
    inner = [
        write_message(at, b"k", b"v" * random.randrange(30), magic=magic, timestamp=NOW)
        for at in range(random.randint(1, 4))
    ]
    if random.random() < 0.5:
        return b"".join(inner)
    if random.random() < 0.3:
        inner = [write_wrapper(3, inner, random.choice(CODECS[1:4]), magic=magic)]  # a wrapper in a wrapper
    return write_wrapper(3, inner, random.choice(CODECS[1:4]), magic=magic, timestamp=NOW)

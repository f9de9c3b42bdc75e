"""Random records and batches of them."""

from __future__ import annotations

from hypothesis import strategies as st

from kshark.records import Record
from kshark.records.writer import write_batch
from tests.records.opening import NOW

payloads = st.none() | st.binary(max_size=90) | st.binary(max_size=3).map(lambda piece: piece * 100)
headers = st.lists(st.tuples(st.text(max_size=6), payloads), max_size=4).map(tuple)


@st.composite
def records(draw: st.DrawFn, most: int = 12) -> list[Record]:
    """Records whose offsets rise, as in a compacted log; many of them are alike, as in real ones."""
    offset = draw(st.sampled_from([0, 5, 2**40, -7]))
    out = []
    for gap in draw(st.lists(st.sampled_from([1, 1, 1, 2, 90, 20_000]), max_size=most)):
        when = NOW + draw(st.integers(-(2**50), 2**50) | st.integers(-100, 100))
        out.append(Record(offset, when, draw(payloads), draw(payloads), draw(headers)))
        offset += gap
    return out


@st.composite
def batches(draw: st.DrawFn, most: int = 12) -> bytes:
    """A healthy batch."""
    return write_batch(
        draw(records(most)),
        codec=draw(st.sampled_from(["none", "none", "none", "gzip", "snappy", "lz4", "zstd"])),
        timestamp_type=draw(st.sampled_from(["create", "create", "log_append"])),
        transactional=draw(st.booleans()),
        control=draw(st.sampled_from([False, False, False, True])),
        delete_horizon=draw(st.booleans()),
    )


@st.composite
def damaged(draw: st.DrawFn, source: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with some of them changed, taken out, or put in."""
    data = bytearray(draw(source))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["change", "change", "change", "cut", "insert", "end"])):
            case "change" if at < len(data):
                data[at] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
            case "cut":
                del data[at : at + draw(st.integers(1, 20))]
            case "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
            case "end":
                del data[at:]
    return bytes(data)

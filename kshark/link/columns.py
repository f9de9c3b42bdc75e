"""The ordinary TCP packets of a batch, all at once: IP without options or extension headers, not fragmented, its headers captured.

Sources as in kshark.link.layers, which reads what is left over and says the same of every packet read here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kshark.link.layers import AUTHENTICATION, EXTENSIONS, FAMILIES, FRAGMENT, IPV4, IPV6, TCP, VLAN_TAGS
from kshark.model import PacketBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kshark.model import Int64s

    Bytes = NDArray[np.uint8]
    Words = NDArray[np.uint64]

#: An endpoint key as 64-bit words: source, source, target, target, ports and IP version (kshark.link.layers.Segment.key).
KEY_WORDS: Final = 5


class LinkHeader(NamedTuple):
    """A link layer's header: its size, where its ethertype stands (None: it has none), or what always follows."""

    size: int
    ethertype_at: int | None = None
    always: int | None = None


LINK_HEADERS: Final = {
    0: LinkHeader(4),
    1: LinkHeader(14, 12),
    12: LinkHeader(0),
    14: LinkHeader(0),
    101: LinkHeader(0),
    108: LinkHeader(4),
    113: LinkHeader(16, 14),
    228: LinkHeader(0, always=IPV4),
    229: LinkHeader(0, always=IPV6),
    276: LinkHeader(20, 0),
}
#: By IP version and protocol number: whether a packet has neither TCP nor a header that TCP may follow.
OTHER_THAN_TCP: Final = {
    4: ~np.isin(np.arange(256), [TCP]),
    6: ~np.isin(np.arange(256), [TCP, FRAGMENT, AUTHENTICATION, *EXTENSIONS]),
}
#: So many consecutive VLAN tags are skipped here.
TAGS: Final = 2

#: IP and TCP header in one, where IP has no options; addresses and ports as words, in whatever order the bytes are.
HEADERS_4: Final = np.dtype(
    {
        "names": ["total", "fragment", "protocol", "source", "target", "ports", "seq", "ack", "data_offset", "flags"],
        "formats": [">u2", ">u2", "u1", "<u4", "<u4", "<u4", ">u4", ">u4", "u1", "u1"],
        "offsets": [2, 6, 9, 12, 16, 20, 24, 28, 32, 33],
        "itemsize": 40,
    }
)
HEADERS_6: Final = np.dtype(
    {
        "names": ["total", "protocol", "source", "source_2", "target", "target_2", "ports", "seq", "ack", "data_offset", "flags"],
        "formats": [">u2", "u1", "<u8", "<u8", "<u8", "<u8", "<u4", ">u4", ">u4", "u1", "u1"],
        "offsets": [4, 6, 8, 16, 24, 32, 40, 44, 48, 52, 53],
        "itemsize": 60,
    }
)


@dataclass(slots=True)
class Columns:
    """TCP segments by row of their batch, in no order; `key` has KEY_WORDS rows. `offset` to `missing` as in model.Segments."""

    row: Int64s
    key: Words
    seq: Int64s
    ack: Int64s
    flags: Bytes
    offset: Int64s
    length: Int64s
    missing: Int64s


class Ordinary(NamedTuple):
    """What was read of a batch: TCP segments, number of packets by other IP protocol, and the rows left for kshark.link.layers."""

    segments: list[Columns]
    others: Counter[int]
    left: Int64s


def ordinary(batch: PacketBatch) -> Ordinary:
    """The ordinary packets of a batch that has any."""
    view = np.frombuffer(batch.buffer, np.uint8)
    first = batch.link_type[0]
    kinds = [int(first)] if (batch.link_type == first).all() else np.unique(batch.link_type).tolist()
    found: list[Columns] = []
    others: Counter[int] = Counter()
    left = np.ones(len(batch.number), bool)
    for kind in kinds:
        header = LINK_HEADERS.get(kind)
        if header is None:
            continue
        rows = np.flatnonzero((batch.length >= header.size + HEADERS_4.itemsize) & (batch.link_type == kind))
        if len(rows) == 0:
            continue
        start, ethertype = _network(view, batch.offset[rows], header)
        leading = view[start]
        captured = batch.offset[rows] + batch.length[rows] - start
        for version, chosen in (
            (4, (ethertype == IPV4) & (leading == 0x45) & (captured >= HEADERS_4.itemsize)),
            (6, (ethertype == IPV6) & (leading >> 4 == 6) & (captured >= HEADERS_6.itemsize)),
        ):
            if chosen.any():
                segments, (beside, protocols) = _segments(batch, view, rows[chosen], start[chosen], version)
                found.append(segments)
                left[segments.row] = left[beside] = False
                others.update(protocols.tolist())
    return Ordinary(found, others, np.flatnonzero(left))


def _network(view: Bytes, begin: Int64s, header: LinkHeader) -> tuple[Int64s, NDArray[Any]]:
    """Where the network layer begins and what it is, as an ethertype."""
    start = begin + header.size
    if header.ethertype_at is not None:
        ethertype = _uint16(view, begin + header.ethertype_at)
        for _ in range(TAGS):
            tagged = np.isin(ethertype, list(VLAN_TAGS)) if int(ethertype.max(initial=0)) >= min(VLAN_TAGS) else np.zeros(1, bool)
            if not tagged.any():
                break
            start = start + 4 * tagged
            ethertype = np.where(tagged, _uint16(view, start - 2), ethertype)
        return start, ethertype
    if header.always is not None:
        return start, np.full(len(start), header.always)
    if header.size == 0:
        version = view[start] >> 4
        return start, np.where(version == 4, IPV4, np.where(version == 6, IPV6, 0))
    word = sliding_window_view(view, 4)[begin].view("<u4")[:, 0]
    ethertype = np.zeros(len(begin), np.int64)
    for family, network in FAMILIES.items():
        ethertype[(word == family) | (word == family << 24)] = network
    return start, ethertype


def _uint16(view: Bytes, position: Int64s) -> NDArray[Any]:
    return view[position].astype(np.uint16) << 8 | view[position + 1]


def _segments(batch: PacketBatch, view: Bytes, row: Int64s, start: Int64s, version: int) -> tuple[Columns, tuple[Int64s, Bytes]]:
    """Of packets whose headers were captured, IP's at `start`: the TCP segments, and rows and protocols of the others."""
    form, ip_header = (HEADERS_4, 20) if version == 4 else (HEADERS_6, 40)
    end = batch.offset[row] + batch.length[row]
    wire_end = np.maximum(batch.offset[row] + batch.wire_length[row], end)
    fields = np.ascontiguousarray(sliding_window_view(view, form.itemsize)[start]).view(form)[:, 0]
    total = fields["total"].astype(np.int64)
    stop = start + total + (0 if version == 4 else ip_header)
    if not total.all():
        stop = np.where(total == 0, wire_end, stop)
    header = (fields["data_offset"] >> 4) * 4
    payload = start + ip_header + header
    other = OTHER_THAN_TCP[version][fields["protocol"]] & (stop >= start + ip_header)
    others = row[other], fields["protocol"][other]
    good = (fields["protocol"] == TCP) & (header >= 20) & (payload <= stop) & (stop <= wire_end)
    if version == 4:
        good &= (fields["fragment"] & 0x3FFF) == 0
    row, end, stop, payload, fields = _where(good, row, end, stop, payload, fields)
    length = np.maximum(np.minimum(end, stop) - payload, 0)
    segments = Columns(
        row=row,
        key=_key(fields, version),
        seq=fields["seq"].astype(np.int64),
        ack=fields["ack"].astype(np.int64),
        flags=np.ascontiguousarray(fields["flags"]),
        offset=payload,
        length=length,
        missing=stop - payload - length,
    )
    return segments, others


def _key(fields: NDArray[Any], version: int) -> Words:
    key = np.zeros((KEY_WORDS, len(fields)), np.uint64)
    key[0], key[2] = fields["source"], fields["target"]
    if version == 6:
        key[1], key[3] = fields["source_2"], fields["target_2"]
    key[4] = fields["ports"] | np.uint64(version << 32)
    return key


def _where(good: NDArray[np.bool_], *columns: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    return columns if good.all() else tuple(column[good] for column in columns)

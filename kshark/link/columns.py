"""Read the ordinary TCP packets of a batch at once: IP without options or extensions, not fragmented, headers captured.

The same inside VXLAN, Geneve and GRE, which clouds and switches use for mirroring. kshark.link.layers reads the
remaining packets, and gives the same result for every packet read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.lib.stride_tricks import sliding_window_view

from kshark.link.inside import inside_gre, inside_udp
from kshark.link.ip import GRE, PROTOCOLS, UDP
from kshark.link.links import FAMILIES
from kshark.link.packet import IPV4, IPV6, TCP
from kshark.link.rows import Rows, uint16
from kshark.link.shims import VLAN_TAGS
from kshark.model import PacketBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kshark.model import Int64s

    Bytes = NDArray[np.uint8]
    Words = NDArray[np.uint64]

#: An endpoint key as 64-bit words: source, source, target, target, ports and IP version
#: (kshark.link.layers.Segment.key).
KEY_WORDS: Final = 5


class LinkHeader(Struct, frozen=True):
    """A link layer's header: its size, the position of its ethertype (None: it has none), or the fixed next
    protocol.
    """

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
#: By protocol number: True if it is not TCP and not read further.
OTHER_THAN_TCP: Final = np.isin(np.arange(256), list(PROTOCOLS))
#: The number of consecutive VLAN tags, and of nested tunnels, that are skipped here.
TAGS: Final = 2
TUNNELS: Final = 2

#: IP and TCP header together, for IP without options; addresses and ports are words in any byte order.
HEADERS_4: Final = np.dtype(
    {
        "names": [
            "total",
            "fragment",
            "protocol",
            "source",
            "target",
            "ports",
            "seq",
            "ack",
            "data_offset",
            "flags",
            "window",
        ],
        "formats": [">u2", ">u2", "u1", "<u4", "<u4", "<u4", ">u4", ">u4", "u1", "u1", ">u2"],
        "offsets": [2, 6, 9, 12, 16, 20, 24, 28, 32, 33, 34],
        "itemsize": 40,
    }
)
HEADERS_6: Final = np.dtype(
    {
        "names": [
            "total",
            "protocol",
            "source",
            "source_2",
            "target",
            "target_2",
            "ports",
            "seq",
            "ack",
            "data_offset",
            "flags",
            "window",
        ],
        "formats": [">u2", "u1", "<u8", "<u8", "<u8", "<u8", "<u4", ">u4", ">u4", "u1", "u1", ">u2"],
        "offsets": [4, 6, 8, 16, 24, 32, 40, 44, 48, 52, 53, 54],
        "itemsize": 60,
    }
)


class Columns(Struct):
    """TCP segments by row of their batch, in no order; `key` has KEY_WORDS rows. `offset` to `missing` as in
    model.Segments.
    """

    row: Int64s
    key: Words
    seq: Int64s
    ack: Int64s
    flags: Bytes
    window: Int64s
    offset: Int64s
    length: Int64s
    missing: Int64s


class Others(Struct, frozen=True):
    """Rows of packets without TCP, and their IP protocol numbers. UDP among them belongs to no known tunnel."""

    row: Int64s
    protocol: Bytes


class Ordinary(NamedTuple):
    """The result for a batch: TCP segments, packets known to have none, and the rows left for kshark.link.layers."""

    segments: list[Columns]
    others: list[Others]
    left: Int64s


def ordinary(batch: PacketBatch) -> Ordinary:
    """Read the ordinary packets of a batch, which must not be empty."""
    view = np.frombuffer(batch.buffer, np.uint8)
    segments_found: list[Columns] = []
    others: list[Others] = []
    left = np.ones(len(batch.number), bool)
    waiting = [*_outermost(batch, view)]
    for _ in range(1 + TUNNELS):
        waiting, around = [], waiting
        for rows in around:
            for part, version in _by_version(view, rows):
                segments, beside, tunnels = _carried(view, part, version)
                segments_found.append(segments)
                others.append(beside)
                waiting += tunnels
                left[segments.row] = left[beside.row] = False
    return Ordinary(segments_found, others, np.flatnonzero(left))


def _outermost(batch: PacketBatch, view: Bytes) -> Iterator[Rows]:
    """Yield the packets inside the link layers."""
    first = batch.link_type[0]
    kinds = [int(first)] if (batch.link_type == first).all() else np.unique(batch.link_type).tolist()
    for kind in kinds:
        header = LINK_HEADERS.get(kind)
        if header is None:
            continue
        row = np.flatnonzero((batch.length >= header.size + HEADERS_4.itemsize) & (batch.link_type == kind))
        if len(row):
            begin = batch.offset[row]
            end = begin + batch.length[row]
            wire_end = np.maximum(begin + batch.wire_length[row], end)
            yield Rows(row, *_network(view, begin, header), end, wire_end)


def _by_version(view: Bytes, rows: Rows) -> Iterator[tuple[Rows, int]]:
    """Yield the rows that begin with a captured ordinary IP header and enough bytes for a TCP header after it."""
    leading, captured = view[rows.start], rows.end - rows.start
    for version, chosen in (
        (4, (rows.ethertype == IPV4) & (leading == 0x45) & (captured >= HEADERS_4.itemsize)),
        (6, (rows.ethertype == IPV6) & (leading >> 4 == 6) & (captured >= HEADERS_6.itemsize)),
    ):
        if chosen.any():
            yield rows.where(chosen), version


def _network(view: Bytes, begin: Int64s, header: LinkHeader) -> tuple[Int64s, NDArray[Any]]:
    """Return the position of the network layer and its ethertype."""
    start = begin + header.size
    if header.ethertype_at is not None:
        ethertype = uint16(view, begin + header.ethertype_at)
        for _ in range(TAGS):
            tagged = (
                np.isin(ethertype, list(VLAN_TAGS))
                if int(ethertype.max(initial=0)) >= min(VLAN_TAGS)
                else np.zeros(1, bool)
            )
            if not tagged.any():
                break
            start = start + 4 * tagged
            ethertype = np.where(tagged, uint16(view, start - 2), ethertype)
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


def _carried(view: Bytes, rows: Rows, version: int) -> tuple[Columns, Others, list[Rows]]:
    """Read captured IP headers: return TCP segments, packets without TCP, and the insides of tunnels."""
    form, ip_header = (HEADERS_4, 20) if version == 4 else (HEADERS_6, 40)
    fields = np.ascontiguousarray(sliding_window_view(view, form.itemsize)[rows.start]).view(form)[:, 0]
    total = fields["total"].astype(np.int64)
    stop = rows.start + total + (0 if version == 4 else ip_header)
    if not total.all():
        stop = np.where(total == 0, rows.wire_end, stop)
    tcp = fields["protocol"] == TCP
    header = (fields["data_offset"] >> 4) * 4
    payload = rows.start + ip_header + header
    good = tcp & (header >= 20) & (payload <= stop) & (stop <= rows.wire_end)
    whole = (fields["fragment"] & 0x3FFF) == 0 if version == 4 else np.ones(1, bool)
    good &= whole
    others, tunnels = Others(rows.row[:0], fields["protocol"][:0]), list[Rows]()
    if not tcp.all():
        others, tunnels = _beside(view, rows, stop, fields["protocol"], whole, ip_header)
    row, end, stop, payload, fields = _where(good, rows.row, rows.end, stop, payload, fields)
    length = np.maximum(np.minimum(end, stop) - payload, 0)
    segments = Columns(
        row=row,
        key=_key(fields, version),
        seq=fields["seq"].astype(np.int64),
        ack=fields["ack"].astype(np.int64),
        flags=np.ascontiguousarray(fields["flags"]),
        window=fields["window"].astype(np.int64),
        offset=payload,
        length=length,
        missing=stop - payload - length,
    )
    return segments, others, tunnels


def _beside(
    view: Bytes, rows: Rows, stop: Int64s, protocol: Bytes, whole: NDArray[np.bool_], ip_header: int
) -> tuple[Others, list[Rows]]:
    """Return the packets known to have no TCP, and the insides of tunnels."""
    sound = stop >= rows.start + ip_header
    other = OTHER_THAN_TCP[protocol] & sound
    row, kind, tunnels = rows.row[other], protocol[other], list[Rows]()
    for number, inside in ((UDP, inside_udp), (GRE, inside_gre)):
        chosen = (protocol == number) & sound & whole & (stop <= rows.wire_end)
        if chosen.any():
            carried = rows.where(chosen)
            start, limit = carried.start + ip_header, stop[chosen]
            carried = carried._replace(start=start, end=np.minimum(carried.end, limit), wire_end=limit)
            plain, ethernet, network = inside(view, carried)
            row, kind = np.concatenate([row, plain]), np.concatenate([kind, np.full(len(plain), number, np.uint8)])
            if len(ethernet.row):
                tunnels.append(
                    Rows(
                        ethernet.row, *_network(view, ethernet.start, LINK_HEADERS[1]), ethernet.end, ethernet.wire_end
                    )
                )
            tunnels.append(network)
    return Others(row, kind), tunnels


def _key(fields: NDArray[Any], version: int) -> Words:
    key = np.zeros((KEY_WORDS, len(fields)), np.uint64)
    key[0], key[2] = fields["source"], fields["target"]
    if version == 6:
        key[1], key[3] = fields["source_2"], fields["target_2"]
    key[4] = fields["ports"] | np.uint64(version << 32)
    return key


def _where(good: NDArray[np.bool_], *columns: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    return columns if good.all() else tuple(column[good] for column in columns)

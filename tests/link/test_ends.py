"""Endpoints become path numbers: the same every time, in both directions, for as many pairs as come."""

from __future__ import annotations

import numpy as np
import pytest

from kshark.link import Link
from kshark.link.columns import KEY_WORDS
from kshark.link.ends import FORGOTTEN, EndsTable
from kshark.model import Ends
from tests.link.frames import Tcp, ethernet, packet
from tests.packets import batch


def keys(pairs: list[tuple[int, int]]) -> np.ndarray:
    """Keys of 10.x.x.x endpoints, told by a number each; all use the same port."""

    def endpoint(number: int) -> bytes:
        return bytes([10, *number.to_bytes(3, "big")]).ljust(16, b"\0")

    rows = b"".join(endpoint(a) + endpoint(b) + b"\0\1\0\1" + b"\4\0\0\0" for a, b in pairs)
    return np.ascontiguousarray(np.frombuffer(rows, "<u8").reshape(-1, KEY_WORDS).T)


def test_pairs_are_numbered_by_first_packet_and_sides_by_its_sender() -> None:
    there, back = Tcp(), Tcp(source="10.0.0.9", target="10.0.0.1", ports=(9092, 50000))
    other = Tcp(source="fe80::1", target="fe80::2")
    link = Link()

    segments, _ = link.feed(batch(map(packet, map(ethernet, [back, there, other, back, there]))))

    assert segments is not None
    assert segments.path.tolist() == [0, 1, 2, 0, 1]
    assert link.ends[0] == Ends("10.0.0.9:9092", "10.0.0.1:50000")
    assert link.ends[1] == Ends("[fe80::1]:50000", "[fe80::2]:9092")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("2001:0db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
        ("::1", "::1"),
        ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
        ("FE80::ABCD", "fe80::abcd"),
    ],
)
def test_ipv6_is_written_as_rfc_5952_asks(address: str, text: str) -> None:
    link = Link()

    link.feed(batch([packet(ethernet(Tcp(source=address, target="::2")))]))

    assert link.ends[0].first == f"[{text}]:50000"


def test_a_connection_from_an_endpoint_to_itself_has_one_side() -> None:
    link = Link()
    segments, _ = link.feed(batch([packet(ethernet(Tcp(target="10.0.0.1", ports=(9, 9))))] * 2))

    assert segments is not None
    assert segments.path.tolist() == [0, 0]


def test_paths_that_share_a_slot_are_told_apart_by_their_whole_key() -> None:
    table = EndsTable()
    pairs = [(n, n + 1_000_000) for n in range(30_000)]

    first = table.paths(keys(pairs))
    again = table.paths(keys(pairs[::7]))
    back = table.paths(keys([(b, a) for a, b in pairs[::7]]))

    assert first.tolist() == [2 * n for n in range(30_000)]
    assert again.tolist() == first[::7].tolist()
    assert back.tolist() == [path ^ 1 for path in first[::7].tolist()]


def test_pairs_not_seen_for_long_are_forgotten_and_those_in_use_never() -> None:
    table = EndsTable(limit=10)
    busy, quiet = (1, 2), (3, 4)
    table.paths(keys([busy, quiet]))

    for n in range(100):
        assert table.paths(keys([busy, (n + 100, 5), busy])).tolist()[::2] == [0, 0]

    assert table[0] == Ends("10.0.0.1:1", "10.0.0.2:1")
    assert table[1] == FORGOTTEN
    assert table.forgotten == sum(table[pair] == FORGOTTEN for pair in range(102)) > 70
    assert table.paths(keys([quiet])).tolist() == [2 * 102]


def test_forgetting_in_the_middle_of_a_batch_is_no_different() -> None:
    table, by_one = EndsTable(limit=7), EndsTable(limit=7)
    pairs = [(n * n % 31, 99) for n in range(300)]

    together = [path for at in range(0, 300, 50) for path in table.paths(keys(pairs[at : at + 50])).tolist()]
    named = [table[path >> 1] for path in table.paths(keys(pairs[-5:])).tolist()]

    assert named == [Ends(f"10.0.0.{a}:1", "10.0.0.99:1") for a, _ in pairs[-5:]]
    assert len(together) == 300
    assert all(by_one[by_one.paths(keys([pair]))[0] >> 1] != FORGOTTEN for pair in pairs)


def test_forgetting_is_reported() -> None:
    link = Link()
    link._table = EndsTable(limit=5)
    weirds = [weird for n in range(30) for weird in link.feed(batch([packet(ethernet(Tcp(ports=(n, 9092))))]))[1]]

    assert {weird.code for weird in weirds} == {"ENDS_FORGOTTEN"}

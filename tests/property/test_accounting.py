"""The books balance: every packet and every byte of a connection is a message's, or something is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from kshark.flows import Account, Ledger
from kshark.link import Link
from kshark.model import ACK, FIN, RST, SYN, Event, Flow, Gap, PacketBatch, Weird
from kshark.pipeline import Front, Options
from kshark.registry import kafka_registry
from tests.packets import Packet, Tcp, Wire
from tests.packets import batch as batch_of
from tests.property.mangled import MUTATIONS, Mutation, anything, batches_of, dropped, packets_of
from tests.shared import CAPTURES, SHARED_CAPTURES, every, shared

BUNDLED = sorted(CAPTURES.glob("*.pcap*"))
EVERYTHING = {**MUTATIONS, "anything": anything}
#: Captures that the quick test takes with each mutation.
SAMPLE = 3
WORDS = 0xFFFFFFFF


class Books:
    """What one run said of its packets."""

    def __init__(self, batches: list[PacketBatch], *, tls_keys: bytes = b"", exact: bool = False) -> None:
        front, ledger = Front(Options(tls_keys=tls_keys, exact=exact), kafka_registry()), Ledger()
        self.link = front.link
        self.accounts: dict[int, tuple[Flow, tuple[Account, Account]]] = {}
        self.foreign: dict[int, int] = {}
        self.gaps: dict[int, list[int]] = {}
        self.strays: set[int] = set()
        for events in front.batches(batches):
            for closed, both in ledger.feed(events):
                self.accounts[closed.flow.id] = closed.flow, both
            self._hear(events)

    def _hear(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Gap) and event.size > 0:
                self.gaps.setdefault(event.flow.id, [0, 0])[event.side] += event.size
            elif isinstance(event, Weird) and event.flow is not None:
                if event.code in ("NOT_KAFKA", "FOREIGN_PROTOCOL", "TLS_UNREAD"):
                    self.foreign[event.flow] = self.foreign.get(event.flow, 0) + event.size
                elif event.stage == "reassembly":
                    self.strays.add(event.flow)

    def unbalanced(self) -> dict[str, tuple[object, object]]:
        """What does not add up, with both sums; nothing, where all is well."""
        link = self.link
        wrong: dict[str, tuple[object, object]] = {
            "packets": (link.packets, link.tcp + link.fragments + link.other.total() + link.unread.total())
        }
        for number, (flow, accounts) in self.accounts.items():
            for side, account in enumerate(accounts):
                name = f"{flow.service}, flow {number}, side {side}"
                wrong[name] = flow.stream_bytes[side] + flow.missing_bytes[side], account.length
                wrong[f"{name}, in order"] = min(account), min(0, *account)
                if flow.tls is not None and flow.service == "kafka":
                    inside = account.framed + account.skipped + account.unfinished
                    wrong[f"{name}, inside TLS"] = flow.tls.content[side], inside
                elif flow.service in ("kafka", "unknown"):
                    wrong[f"{name}, gaps"] = flow.missing_bytes[side], self.gaps.get(number, [0, 0])[side]
            wrong[f"flow {number}, told"] = accounts[0].foreign + accounts[1].foreign, self.foreign.get(number, 0)
        return {name: sums for name, sums in wrong.items() if sums[0] != sums[1]}


@pytest.mark.sweep(quick=5)
@pytest.mark.parametrize("capture", BUNDLED, ids=lambda path: path.name)
def test_of_captures_as_they_are(capture: Path) -> None:
    assert Books(batches_of(packets_of(capture), Random(capture.name))).unbalanced() == {}


@pytest.mark.sweep(quick=4)
@pytest.mark.parametrize("name", EVERYTHING)
def test_of_captures_with(name: str) -> None:
    random = Random(name)
    for capture in random.sample(BUNDLED, SAMPLE):
        packets = EVERYTHING[name](packets_of(capture)[: random.choice((200, 700))], random)
        assert Books(batches_of(packets, random)).unbalanced() == {}, capture.name


@pytest.mark.slow
@pytest.mark.parametrize("capture", every(SHARED_CAPTURES), ids=lambda path: path.name)
def test_of_every_capture_and_every_mutation(capture: Path) -> None:
    packets = packets_of(capture)
    for name, mutation in EVERYTHING.items():
        random = Random(f"{capture.name} {name}")
        assert Books(batches_of(mutation(packets, random), random)).unbalanced() == {}, name


# -- the length of a stream is what its sequence numbers say


def lengths(batches: list[PacketBatch]) -> dict[frozenset[str], list[int]]:
    """By ends what both sides sent, of connections whose SYNs were seen and whose ports nobody used again.

    From the SYN to the last number that was sent, or acknowledged; a FIN takes a number itself.
    """
    link, seen = Link(), dict[int, list[tuple[int, int, int, int, int]]]()
    for item in batches:
        segments, _ = link.feed(item)
        if segments is not None:
            columns = (segments.path, segments.seq, segments.ack, segments.flags, segments.length + segments.missing)
            for path, *numbers in zip(*(column.tolist() for column in columns), strict=True):
                seen.setdefault(path >> 1, []).append((path & 1, *numbers))
    found = {}
    for pair, rows in seen.items():
        begins = [{seq + 1 & WORDS for side, seq, _, flags, _ in rows if side == at and flags & SYN} for at in (0, 1)]
        if [len(begin) for begin in begins] == [1, 1] and not any(flags & RST for _, _, _, flags, _ in rows):
            found[frozenset(link.ends[pair])] = [_length(rows, at, begin.pop()) for at, begin in enumerate(begins)]
    return found


def _length(rows: list[tuple[int, int, int, int, int]], at: int, begin: int) -> int:
    sent = [
        ((seq - begin & WORDS) + size, flags, size)
        for side, seq, _, flags, size in rows
        if side == at and not flags & SYN
    ]
    acked = [ack - begin & WORDS for side, _, ack, flags, _ in rows if side != at and flags & ACK]
    fins = [end for end, flags, _ in sent if flags & FIN]
    if fins:
        return min(fins)
    data = max([end for end, _, size in sent if size], default=0)
    most = max([data, *acked, *(end for end, _, _ in sent)])
    return data if most == data + 1 else most  # the number of a FIN that was lost


def twice(packets: list[Packet], random: Random) -> list[Packet]:
    """Some come again, at once or later, as they were."""
    out = list(packets)
    for at in sorted(random.sample(range(len(out)), len(out) // 10), reverse=True):
        out.insert(min(at + random.choice((1, 2, 40)), len(out)), out[at])
    return out


#: Damage as networks, snap lengths and users do it; no header lies.
GENTLE: dict[str, Mutation] = {
    "nothing": lambda packets, _: packets,
    "packets removed": dropped,
    "packets repeated": lambda packets, random: twice(packets, random),
    "packets out of order": MUTATIONS["displaced"],
    "snapped": lambda packets, _: [replace(packet, data=packet.data[:120]) for packet in packets],
    "numbers that wrap": MUTATIONS["wrapped"],
    "an end that was not captured": lambda packets, random: packets[: random.randrange(1, max(2, len(packets)))],
    "a beginning that was not captured": lambda packets, random: packets[random.randrange(len(packets)) :],
}


def assert_as_long_as_its_numbers_say(packets: list[Packet], random: Random) -> int:
    batches = batches_of(packets, random)
    books, said = Books(batches), lengths(batches)
    assert books.unbalanced() == {}
    compared = {
        flow.id: (said[frozenset(flow.ends)], [account.length for account in both])
        for flow, both in books.accounts.values()
        if frozenset(flow.ends) in said and flow.id not in books.strays and flow.begun == (True, True)
    }
    assert {number: sums for number, sums in compared.items() if sums[0] != sums[1]} == {}
    return len(compared)


@pytest.mark.sweep(quick=3)
@pytest.mark.parametrize("name", GENTLE)
def test_a_stream_is_as_long_as_its_sequence_numbers_say_with(name: str) -> None:
    random = Random(name)
    compared = 0
    for capture in random.sample(BUNDLED, 4):
        packets = packets_of(capture)[:900]
        compared += assert_as_long_as_its_numbers_say(GENTLE[name](packets, random), random)
    assert compared > 5, "too few connections whose beginning was seen"


@pytest.mark.slow
@pytest.mark.parametrize("capture", [*BUNDLED, *SHARED_CAPTURES], ids=lambda path: path.name)
def test_every_stream_is_as_long_as_its_sequence_numbers_say(capture: Path) -> None:
    packets = packets_of(capture)
    for name, damage in GENTLE.items():
        random = Random(f"{capture.name} {name}")
        assert_as_long_as_its_numbers_say(damage(packets, random), random)


def test_what_lies_before_the_first_byte_seen_is_passed_over_and_said() -> None:
    """A capture that begins between two packets which overtook each other."""
    wire = Wire()
    talk = Tcp(wire)
    talk.client(b"a" * 100)
    talk.client(b"b" * 100)
    talk.client(b"c" * 100)
    wire.packets[:2] = wire.packets[1::-1]
    front = Front(Options(), kafka_registry())
    events = [event for batch in front.batches([batch_of(wire.packets)]) for event in batch]
    (passed,) = [event for event in events if isinstance(event, Weird) and event.code == "BYTES_SKIPPED"]
    assert (passed.packet, passed.size, passed.detail) == (2, 100, "before the first byte that was seen")


def test_under_tls() -> None:
    """What is inside, what TLS adds, and with no keys all of it as it is."""
    capture = shared("captures", "kafka-4", "security-tls.pcap")
    packets = packets_of(capture)
    keys = capture.with_suffix(".keys").read_bytes()
    random = Random(7)
    for damage in ("nothing", "packets removed", "packets out of order", "a beginning that was not captured"):
        batches = batches_of(GENTLE[damage](packets, random), random)
        for books in (Books(batches, tls_keys=keys), Books(batches)):
            assert books.unbalanced() == {}, damage
    whole = Books(batches_of(packets, random), tls_keys=keys).accounts.values()
    assert any(both[0].framed and both[0].sealing for _, both in whole)

"""Batches of one time line, each decoded by whoever has the fewest to do: together they say what one process says of
the whole."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from random import Random
from struct import pack
from typing import Any

import msgspec
import pytest

from dissectors.embedded import cluster_topics
from dissectors.embedded.consumer_protocol import SUBSCRIPTION
from kshark import limits
from kshark.model import Event, Message, PacketBatch
from kshark.output.notes import Notes
from kshark.output.spans import plain
from kshark.parallel import ALWAYS, Lookahead, Scheduler, Worker, scheduler
from kshark.pipeline import Back, Front, Options
from tests.embedding import REGISTRY, batch_of, numbered, prefixed, request_frame, response_frame
from tests.packets import Packet, Tcp, Wire, batch
from tests.property.mangled import MUTATIONS, anything, batches_of, packets_of
from tests.shared import CAPTURES, SHARED_CAPTURES

BUNDLED = sorted(path for path in CAPTURES.glob("*.pcap*"))
ALL = SHARED_CAPTURES
EVERYTHING = {**MUTATIONS, "anything": anything}
ASKED = (
    Options(embedded=True),
    Options(embedded=True, records=False),
    Options(embedded=True, records="headers", payload=False),
    Options(),
    Options(bodies=frozenset()),
)
WINDOW = 300
ORDERS = "5LAc5cvmTxGiXZ9i-6xc0A"


class Bodies:
    """Makes bytes that keep everything messages say."""

    def __init__(self) -> None:
        self._made: list[bytes] = []

    def page(self, page: list[Event], since_ns: int) -> None:
        self._made += [
            msgspec.msgpack.encode(event) for event in page if isinstance(event, Message) and event.time_ns >= since_ns
        ]

    def widths(self, widths: tuple[int, ...]) -> None:
        raise AssertionError("nobody measures")

    def rendered(self) -> list[bytes]:
        made, self._made = self._made, []
        return made


class Crowd:
    """Workers in this process; what they are sent, and send back, is pickled as on its way to others. Which results are
    there is chance."""

    def __init__(self, jobs: int, options: Options, random: Random) -> None:
        self.jobs = jobs
        self._workers = [Worker(Back(options, REGISTRY), Bodies()) for _ in range(jobs)]
        self._made: list[deque[bytes]] = [deque() for _ in range(jobs)]
        self._random = random

    def send(self, worker: int, item: Any) -> None:
        made = self._workers[worker].take(pickle.loads(pickle.dumps(item, 5)))
        self._made[worker].append(pickle.dumps(made))

    def ready(self, worker: int) -> bool:
        return self._random.random() < 0.2

    def receive(self, worker: int) -> Any:
        return pickle.loads(self._made[worker].popleft())


Said = tuple[list[bytes], list[str]]


def framed(batches: Iterable[PacketBatch], options: Options) -> Iterable[list[Event]]:
    front = Front(options, REGISTRY)
    for item in batches:
        yield front.feed(item)
    yield front.close()


def alone(batches: Iterable[PacketBatch], options: Options) -> Said:
    """Messages, and notes on the capture, as one process has them."""
    back, bodies, notes = Back(options, REGISTRY), Bodies(), Notes()
    for events in framed(batches, options):
        for page in back.feed(events):
            notes.add(page)
            bodies.page(page, ALWAYS)
    return bodies.rendered(), [plain(line) for line in notes.lines()]


def together(batches: Iterable[PacketBatch], options: Options, random: Random) -> Said:
    """The same of two or three."""
    notes = Notes()
    crowd: Any = Crowd(random.choice((1, 2)), options, random)
    own = Worker(Back(options, REGISTRY), Bodies())
    run = Scheduler(crowd, own, Lookahead(options, REGISTRY), notes).run(
        framed(batches, options), lambda: ALWAYS, lambda: None
    )
    return [message for made in run for message in made], [plain(line) for line in notes.lines()]


def assert_they_agree(packets: list[Packet], random: Random, options: Options | None = None) -> None:
    batches, options = batches_of(packets, random), options or random.choice(ASKED)
    assert together(batches, options, random) == alone(batches, options)


# -- captures


def window(packets: list[Packet], random: Random) -> list[Packet]:
    at = random.randrange(max(1, len(packets) - WINDOW))
    return packets[at : at + WINDOW]


@pytest.mark.sweep(quick=4)
@pytest.mark.parametrize("capture", BUNDLED, ids=lambda path: path.name)
def test_of_captures_as_they_are(capture: Path) -> None:
    random = Random(capture.name)
    assert_they_agree(window(packets_of(capture), random), random)


@pytest.mark.sweep(quick=4)
@pytest.mark.parametrize("name", EVERYTHING)
def test_of_captures_with(name: str) -> None:
    random = Random(name)
    capture = random.choice(BUNDLED)
    assert_they_agree(EVERYTHING[name](window(packets_of(capture), random), random), random)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_of_all_captures_damaged(capture: Path, seed: int) -> None:
    random = Random(f"{capture.name} {seed}")
    packets = packets_of(capture)[: 20 * WINDOW]
    assert_they_agree(EVERYTHING[random.choice(list(EVERYTHING))](packets, random) if seed else packets, random)


# -- what a batch needs of those before it


def asked(tcp: Tcp, frame: bytes) -> None:
    tcp.client(pack(">i", len(frame)) + frame)


def answered(tcp: Tcp, frame: bytes) -> None:
    tcp.broker(pack(">i", len(frame)) + frame)


def apart(*packets: list[Packet]) -> list[PacketBatch]:
    """A batch for each list of packets."""
    numbers = [1 + sum(map(len, packets[:at])) for at in range(len(packets))]
    return [batch(each, number) for each, number in zip(packets, numbers, strict=True)]


def cut(wire: Wire) -> list[list[Packet]]:
    """Every packet is a batch."""
    return [[packet] for packet in wire.packets]


def both(wire: Wire, options: Options = ASKED[0]) -> list[dict[str, Any]]:
    """The messages; one process and several say the same of them."""
    batches = apart(*cut(wire))
    said = together(batches, options, Random(1))
    assert said == alone(batches, options)
    return [msgspec.msgpack.decode(message) for message in said[0]]


def test_an_answer_finds_its_request_in_an_earlier_batch() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    for correlation_id in (1, 2, 3):
        asked(
            tcp,
            request_frame(
                18, 3, {"client_software_name": "x", "client_software_version": "1"}, correlation_id=correlation_id
            ),
        )
    for correlation_id in (1, 3, 2):
        answered(tcp, response_frame(18, 3, {}, correlation_id=correlation_id))
    last = both(wire)[3:]
    assert [(message["api"], message["correlation_id"]) for message in last] == [
        ("ApiVersions", 1),
        ("ApiVersions", 3),
        ("ApiVersions", 2),
    ]
    assert [message["weird"] for message in last if "weird" in message] == [["RESPONSE_OUT_OF_ORDER"]]
    assert all(message["latency_ns"] > 0 for message in last)


def test_correlation_ids_that_fall_find_their_requests_in_earlier_batches() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    for batch_of_ids in ((9, 8, 7), (6, 6, 8), (5,)):
        frames = [request_frame(18, 0, {}, correlation_id=number) for number in batch_of_ids]
        tcp.client(b"".join(pack(">i", len(frame)) + frame for frame in frames))
    for correlation_id in (8, 9, 7, 6, 6, 8, 5):
        answered(tcp, response_frame(18, 0, {}, correlation_id=correlation_id))
    said = both(wire)
    first, second, third = sorted({message["packet"] for message in said[:7]})
    assert [message["request_packet"] for message in said[7:]] == [first, first, first, second, second, second, third]
    reused, same, overtaking = (message for message in said if "weird" in message)
    assert f"id 6 in packet {second}" in reused["detail"]
    assert f"id 8 in packet {first}" in same["detail"]
    assert overtaking["weird"] == ["RESPONSE_OUT_OF_ORDER"]


def test_what_an_answers_bytes_are_is_told_by_its_request() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    offer = prefixed(SUBSCRIPTION, 1, topics=["orders"])
    asked(tcp, request_frame(11, 5, {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": offer}]}))
    answered(tcp, response_frame(11, 5, {"members": [{"member_id": "m", "metadata": offer}]}))
    answer = both(wire)[1]
    assert answer["body"]["members"][0]["metadata_decoded"]["data"]["topics"] == ["orders"]


def test_a_message_inside_an_answer_is_told_by_its_request() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    inner = request_frame(19, 7, {"topics": []})
    asked(tcp, request_frame(58, 0, {"request_data": inner, "client_host_address": b"\x0a\0\0\1"}))
    answered(tcp, response_frame(58, 0, {"response_data": response_frame(19, 7, {"topics": []})}))
    answer = both(wire)[1]
    assert answer["body"]["response_data_decoded"]["api"] == "CreateTopics"


def test_raw_tokens_go_on_in_the_next_batch() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    asked(tcp, request_frame(17, 0, {"mechanism": "PLAIN"}))
    answered(tcp, response_frame(17, 0, {"error_code": 0, "mechanisms": ["PLAIN"]}))
    asked(tcp, b"\0user\0password")
    answered(tcp, b"")
    asked(tcp, request_frame(3, 1, {"topics": None}, correlation_id=2))
    said = both(wire)
    assert [message.get("weird") for message in said[2:4]] == [["RAW_TOKEN"], ["RAW_TOKEN"]]
    assert said[4]["api"] == "Metadata"


def test_what_a_broker_offers_is_known_where_the_connection_ends() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    asked(tcp, request_frame(18, 3, {"client_software_name": "x", "client_software_version": "1"}))
    answered(tcp, response_frame(18, 3, {"api_keys": [{"api_key": 3, "min_version": 4, "max_version": 13}]}))
    asked(tcp, request_frame(3, 1, {"topics": None}, correlation_id=2))
    tcp.close()
    both(wire)
    assert any("VERSION_NOT_ADVERTISED" in line for line in together(apart(*cut(wire)), ASKED[0], Random(1))[1])


def test_that_authentication_has_begun_is_known_where_the_connection_ends() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    asked(tcp, request_frame(17, 1, {"mechanism": "PLAIN"}))
    answered(tcp, response_frame(17, 1, {"error_code": 0, "mechanisms": ["PLAIN"]}))
    asked(tcp, request_frame(3, 1, {"topics": None}, correlation_id=2))
    tcp.close()
    both(wire)
    assert any("SASL_SEQUENCE" in line for line in together(apart(*cut(wire)), ASKED[0], Random(1))[1])


def test_names_told_in_one_batch_are_known_in_the_next() -> None:
    wire = Wire()
    tcp, other = Tcp(wire).open(), Tcp(wire, source="10.0.0.2:50000").open()
    asked(tcp, request_frame(3, 12, {"topics": None}))
    answered(tcp, response_frame(3, 12, {"topics": [{"name": "__cluster_metadata", "topic_id": ORDERS}]}))
    records = batch_of((None, numbered(2, cluster_topics.TOPIC, name="t", topic_id=ORDERS)))
    asked(other, request_frame(1, 13, {"max_wait_ms": 1}))
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 9, "records": records}
    answered(other, response_frame(1, 13, {"responses": [{"topic_id": ORDERS, "partitions": [partition]}]}))
    (record,) = both(wire)[3]["body"]["responses"][0]["partitions"][0]["records"]["batches"][0]["records"]
    assert record["value_decoded"]["data"]["name"] == "t"


def test_names_that_records_told_are_known_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPICS", 3)
    wire = Wire()
    tcp = Tcp(wire).open()
    ids = ["A" * 21 + letter for letter in "gwA"]
    for number, topic_id in enumerate(ids[:2]):
        name = ("__consumer_offsets", "orders")[number]
        records = batch_of((None, numbered(2, cluster_topics.TOPIC, name=name, topic_id=topic_id)))
        asked(tcp, request_frame(1, 12, {"max_wait_ms": 1}, correlation_id=number))
        partition = {"partition_index": 0, "error_code": 0, "high_watermark": 9, "records": records}
        told = {"responses": [{"topic": "__cluster_metadata", "partitions": [partition]}]}
        answered(tcp, response_frame(1, 12, told, correlation_id=number))
    for number, letter in enumerate("bcdefg", 9):
        asked(tcp, request_frame(3, 12, {"topics": None}, correlation_id=number))
        beyond = [{"name": f"beyond-{letter}", "topic_id": letter + ORDERS[1:]}]
        answered(tcp, response_frame(3, 12, {"topics": beyond}, correlation_id=number))
    batches = apart(*cut(wire))
    assert any("NAMES_LIMIT ×1" in line for line in together(batches, ASKED[0], Random(1))[1]), (
        "it is told once, whoever meets it"
    )
    both(wire)


class Scripted(Crowd):
    """One worker, whose results are there when the script says so."""

    def __init__(self, options: Options, ready: list[bool]) -> None:
        super().__init__(1, options, Random(0))
        self._ready = ready

    def ready(self, worker: int) -> bool:
        return self._ready.pop(0) if self._ready else False


def test_what_the_first_process_decoded_itself_is_not_known_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one has the first batch when the name is told, and the last one needs it."""
    monkeypatch.setattr(scheduler, "DEPTH", 1)
    wire = Wire()
    tcp = Tcp(wire).open()
    batches = [batch(wire.packets)]

    def next_batch(key: int, version: int, asked_fields: dict[str, Any], fields: dict[str, Any]) -> None:
        before = len(wire.packets)
        number = len(batches)
        asked(tcp, request_frame(key, version, asked_fields, correlation_id=number))
        answered(tcp, response_frame(key, version, fields, correlation_id=number))
        batches.append(batch(wire.packets[before:], before + 1))

    next_batch(3, 12, {"topics": None}, {"topics": [{"name": "__cluster_metadata", "topic_id": ORDERS}]})
    next_batch(18, 3, {"client_software_name": "x", "client_software_version": "1"}, {})
    records = batch_of((None, numbered(2, cluster_topics.TOPIC, name="t", topic_id=ORDERS)))
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 9, "records": records}
    next_batch(1, 13, {"max_wait_ms": 1}, {"responses": [{"topic_id": ORDERS, "partitions": [partition]}]})
    notes, own = Notes(), Worker(Back(ASKED[0], REGISTRY), Bodies())
    crowd: Any = Scripted(ASKED[0], [False, False, True])
    run = Scheduler(crowd, own, Lookahead(ASKED[0], REGISTRY), notes).run(
        framed(batches, ASKED[0]), lambda: ALWAYS, lambda: None
    )
    said = [message for made in run for message in made]
    assert (said, [plain(line) for line in notes.lines()]) == alone(batches, ASKED[0])
    assert b"value_decoded" in said[-1]


@pytest.mark.parametrize("version", [-1, -32768, 32767])
def test_a_version_that_nobody_has_is_the_same_in_the_next_batch(version: int) -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    asked(tcp, request_frame(3, 1, {"topics": None}))
    answered(tcp, response_frame(3, 1, {}))
    asked(tcp, pack(">hhihs", 3, version, 2, 1, b"c") + b"\0\0\0\0")
    answered(tcp, pack(">ii", 2, 0))
    assert [(message["version"], message.get("weird")) for message in both(wire)[2:]] == [
        (version, ["VERSION_UNKNOWN"])
    ] * 2


def test_each_message_has_its_own_file_and_frame() -> None:
    """Also behind one of which it was forgotten."""
    wire = Wire()
    tcp = Tcp(wire).open()
    for number in (1, 2, 3):
        asked(tcp, request_frame(3, 1, {"topics": None}, correlation_id=number))
    located = {4: ("a.pcap", 1), 6: ("b.pcap", 7)}
    crowd: Any = Crowd(1, ASKED[0], Random(1))
    run = Scheduler(crowd, Worker(Back(ASKED[0], REGISTRY), Bodies()), Lookahead(ASKED[0], REGISTRY), Notes())
    said = run.run(framed([batch(wire.packets)], ASKED[0]), lambda: ALWAYS, lambda: located.get)
    messages = [msgspec.msgpack.decode(message) for made in said for message in made]
    assert [(message.get("file"), message.get("frame")) for message in messages] == [
        ("a.pcap", 1),
        (None, None),
        ("b.pcap", 7),
    ]


def test_batches_that_hold_nothing_are_nobodys() -> None:
    wire = Wire()
    Tcp(wire).open()
    assert both(wire) == []

"""`kshark deliveries`: the table of KIP-932's own example, cell by cell; one record's life; who holds what; refused
words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.analysis.states.partition.test_aborted import opened
from tests.analysis.talks import accepted, batch_of, handed, metadata, produced, sets
from tests.cli.command import Run
from tests.cli.incident import written
from tests.conversation import TOPIC, Conversation
from tests.shared import CAPTURES, shared

MESSY: Final = CAPTURES / "seed-messy.pcap"
#: The page's "cumulative state" behind each of its operations, as written there: start offset, end offset, records. The
#: page goes by operations, the capture by answers: what three consumers fetch is three rows, and a lock timeout of two
#: records comes one by one.
PAGE: Final = [
    ("Fetch records 100-109", 100, 110, "100-109 acquired 1"),
    ("Acknowledge 100-109", 110, 110, ""),
    ("Fetch records 110-119", 110, 120, "110-119 acquired 1"),
    ("Release 110 (consumer 1)", 110, 120, "110-110 available 1, 111-119 acquired 1"),
    ("Acknowledge 119 (consumer 3)", 110, 120, "110-110 available 1, 111-118 acquired 1, 119-119 acknowledged 1"),
    (
        "Fetch records 110, 120 (consumer 1)",
        110,
        121,
        "110-110 acquired 2, 111-118 acquired 1, 119-119 acknowledged 1, 120-120 acquired 1",
    ),
    (
        "Lock timeout elapsed 111, 112 (consumer 1's records)",
        110,
        121,
        "110-110 acquired 2, 111-112 available 1, 113-118 acquired 1, 119-119 acknowledged 1, 120-120 acquired 1",
    ),
    (
        "Acknowledge 113-118 (consumer 2)",
        110,
        121,
        "110-110 acquired 2, 111-112 available 1, 113-119 acknowledged 1, 120-120 acquired 1",
    ),
    ("Fetch records 111, 112 (consumer 3)", 110, 121, "110-112 acquired 2, 113-119 acknowledged 1, 120-120 acquired 1"),
    ("Acknowledge 110 (consumer 1)", 111, 121, "111-112 acquired 2, 113-119 acknowledged 1, 120-120 acquired 1"),
    ("Acknowledge 111, 112 (consumer 3)", 120, 121, "120-120 acquired 1"),
]


def in_words(ranges: list[dict[str, Any]]) -> str:
    """As the page tells them, which does not say by whom: neighbours in one state are one range."""
    told: list[list[Any]] = []
    for one in ranges:
        state = [one["state"], one["delivery_count"]]
        if told and told[-1][1] + 1 == one["first_offset"] and told[-1][2:] == state:
            told[-1][1] = one["last_offset"]
        else:
            told.append([one["first_offset"], one["last_offset"], *state])
    return ", ".join(f"{first}-{last} {state} {count}" for first, last, state, count in told)


def test_the_table_of_the_kip(kshark: Run) -> None:
    rows = kshark("deliveries", MESSY, "-T", "json", "--group", "G1").json
    states = [(row["start_offset"], row["end_offset"], in_words(row["ranges"])) for row in rows]
    page = iter(PAGE)
    assert [states[at] for at in (0, 1, 4, 5, 6, 7, 9, 10, 11, 12, 13)] == [tuple(step[1:]) for step in page]
    assert [(row["event"], row["offsets"]) for row in rows] == [
        ("acquired", [[100, 109]]),
        ("accepted", [[100, 109]]),
        ("acquired", [[110, 112]]),
        ("acquired", [[113, 118]]),
        ("acquired", [[119, 119]]),
        ("released", [[110, 110]]),
        ("accepted", [[119, 119]]),
        ("acquired", [[110, 110], [120, 120]]),
        ("lock_timeout", [[111, 111]]),
        ("lock_timeout", [[112, 112]]),
        ("accepted", [[113, 118]]),
        ("acquired", [[111, 112]]),
        ("accepted", [[110, 110]]),
        ("accepted", [[111, 112]]),
        ("session_released", [[120, 120]]),
    ]
    assert {row["topic"] for row in rows} == {"messy"}


def test_the_table_is_that_of_the_page() -> None:
    """Each cell of the page's "cumulative state", read from its text; of acknowledged records it gives no delivery
    count."""
    cell = re.compile(r"SPSO=(\d+), SPEO=(\d+)((?:, records? .*)?)")
    records = re.compile(r"records? (\d+)(?:-(\d+))? (?:\((\w+), delivery count (\d+)\)|(acknowledged))")
    written = shared("drafts", "003_8ac41351a8cf10a8.txt").read_text().splitlines()
    cells = [said for line in written if (said := cell.fullmatch(line.strip()))][2:]  # of the state before, twice
    ranges = [
        [(one[1], one[2] or one[1], one[3] or one[5], one[4] or "1") for one in records.finditer(said[3])]
        for said in cells
    ]
    told = [", ".join(f"{first}-{last} {state} {count}" for first, last, state, count in row) for row in ranges]
    assert [(int(said[1]), int(said[2]), row) for said, row in zip(cells, told, strict=True)] == [
        step[1:] for step in PAGE
    ]
    assert {operation for operation, *_ in PAGE} <= {line.strip() for line in written}


def test_keys_of_a_change(kshark: Run) -> None:
    (first, *_) = kshark("deliveries", MESSY, "-T", "json").json
    assert list(first) == [
        "group_id", "topic_id", "topic", "partition", "packet", "time_ns", "event", "member_id", "start_offset",
        "end_offset", "ranges",
        "offsets", "client_id", "client", "start_source", "start_packet", "start_least",
    ]  # fmt: skip
    assert first["ranges"] == [
        {
            "first_offset": 100,
            "last_offset": 109,
            "state": "acquired",
            "delivery_count": 1,
            "member_id": first["member_id"],
        }
    ]
    assert first["client_id"] == "consumer-1"


def test_one_records_life(kshark: Run) -> None:
    done = kshark("deliveries", MESSY, "--offset", "111")
    assert done.lines[0].startswith(
        "offset 111 of messy[0] produced by admin at 03:43:59.931 in the batch of offsets 110-119"
    )
    told = [line.split() for line in done.lines if "G1" in line]
    assert [(row[0], " ".join(row[5:7]) if row[5] == "lock" else row[5]) for row in told] == [
        ("262", "acquired"),
        ("311", "lock timeout"),
        ("336", "acquired"),
        ("352", "accepted"),
    ]
    born, *life = kshark("deliveries", MESSY, "--offset", "111", "-T", "json").json
    assert (born["event"], born["base_offset"], born["last_offset"]) == ("produced", 110, 119)
    assert [one["event"] for one in life] == ["acquired", "lock_timeout", "acquired", "accepted"]
    assert kshark("deliveries", MESSY, "--offset", "9999").lines == [
        "offset 9999: its Produce is not in the capture",
        "offset 9999: the capture has no delivery of it",
    ]


def test_a_moment_by_packet_or_time(kshark: Run) -> None:
    (by_packet,) = kshark("deliveries", MESSY, "--at", "303", "-T", "json").json
    assert (by_packet["start_offset"], by_packet["end_offset"], in_words(by_packet["ranges"])) == PAGE[5][1:]
    (by_time,) = kshark("deliveries", MESSY, "--at", "03:44:01.298", "-T", "json").json
    assert by_time == by_packet
    text = kshark("deliveries", MESSY, "--at", "303").out
    assert "G1 · messy[0]  start offset 110  end offset 121" in text
    assert [line.split()[-1] for line in text.splitlines() if "acquired" in line] == [
        "consumer-1",
        "consumer-1",
        "consumer-2",
        "consumer-1",
    ]
    assert "the end of the capture" not in text
    assert kshark("deliveries", MESSY, "--at", "9999").lines[0] == "at 03:44:05.099, the end of the capture"
    assert kshark("deliveries", MESSY, "--holders").lines[0] == "at 03:44:05.099, the end of the capture"


@pytest.mark.parametrize(
    "words", [("--topic", "mesy"), ("--group", "g1", "--holders", "--at", "303"), ("--partition", "7", "--at", "303")]
)
def test_what_there_is_is_said_where_nothing_is_found(kshark: Run, words: tuple[str, ...]) -> None:
    assert kshark("deliveries", MESSY, *words).err == "kshark: no record matches; there are records of G1 · messy[0]\n"


def test_topics_of_one_name_are_told_apart(kshark: Run, tmp_path: Path) -> None:
    """Deleted and made anew, or of two clusters."""
    talk, ids = Conversation(), (TOPIC, "5LAc5cvmTxGiXZ9i-6xc0A")
    member = talk.member("a")
    for epoch, topic_id in enumerate(ids):
        topic = {"name": "t", "topic_id": topic_id}
        member.connection.ask(3, "Metadata", 12, {"topics": None}).answered(None, topics=[topic])
        given = {"partition_index": 0, "acquired_records": [{"first_offset": 0, "last_offset": 9, "delivery_count": 1}]}
        member.share_fetch(epoch, [0], topic=topic_id).answered(
            responses=[{"topic_id": topic_id, "partitions": [given]}]
        )
    capture = written(tmp_path, talk.wire.packets)
    both = [f"g · t[0] {topic_id[:8]}…" for topic_id in ids]
    for words in ((), ("--holders",), ("--at", "99")):
        out = kshark("deliveries", capture, *words).out
        assert [out.count(place) for place in both] == [1, 1]


def test_who_holds_what(kshark: Run) -> None:
    holders = kshark("deliveries", MESSY, "--holders", "--at", "320", "-T", "json").json
    assert [(one["client_id"], one["offsets"], one["records"], one["blocks_start"]) for one in holders] == [
        ("consumer-1", [[110, 110], [120, 120]], 2, True),
        ("consumer-2", [[113, 118]], 6, False),
    ]
    text = kshark("deliveries", MESSY, "--holders", "--at", "320").out
    assert "blocked by it" in text
    assert "no member holds records" in kshark("deliveries", MESSY, "--holders", "--at", "200").out


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (["--group", "G1"], 15),
        (["--group", "other"], 0),
        (["--topic", "messy"], 15),
        (["--topic", "nothing"], 0),
        (["--partition", "0"], 15),
        (["--partition", "1"], 0),
        (["--since", "03:44:04"], 5),
        (["-q"], 0),
    ],
)
def test_what_was_asked_for(kshark: Run, words: list[str], rows: int) -> None:
    assert len(kshark("deliveries", MESSY, "-T", "json", *words).lines) == rows


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--at", "noon"], '--at accepts a time or a packet number, not "noon"; write +10s, 14:03:07 or 4711'),
        (["--offset", "-3"], 'argument --offset: "-3" is not a number from 0'),
        (["--partition", "x"], 'argument --partition: "x" is not a number from 0'),
    ],
)
def test_words_that_are_refused(kshark: Run, words: list[str], said: str) -> None:
    done = kshark("deliveries", MESSY, *words)
    assert done.code == 2
    assert said in done.err


def test_the_leader_moves(kshark: Run) -> None:
    """Told when another broker than the last one hands records out: what is in flight then only that one knows."""
    rows = kshark("deliveries", CAPTURES / "share-leaders.pcap", "-T", "json").json
    moves = [at for at, row in enumerate(rows) if row["event"] == "leader_changed"]
    assert [(rows[at]["packet"], rows[at]["partition"], rows[at]["offsets"]) for at in moves] == [
        (398, 0, [[5, 4]]),
        (669, 1, [[15, 19]]),
    ]
    for at in moves:
        assert (rows[at]["ranges"], rows[at]["start_offset"], rows[at]["member_id"]) == ([], None, None)
        assert (rows[at + 1]["packet"], rows[at + 1]["event"]) == (rows[at]["packet"], "acquired")
    told = kshark("deliveries", CAPTURES / "share-leaders.pcap", "--partition", "0").lines
    assert [line.split() for line in told if "leader changed" in line] == [
        ["398", "01:39:30.268", "moves", "·", "t[0]", "leader", "changed", "?", "5"]
    ]


def test_of_many_ranges_the_first_are_listed_and_the_others_counted(kshark: Run, tmp_path: Path) -> None:
    """Every second record is handed out, one by one; with `--at`, and of one record, all of them are there."""
    talk = Conversation()
    member = talk.member("a")
    member.share_fetch(0, [0]).answered()
    for number in range(50):
        member.share_fetch(1 + number).answered(responses=handed((0, 2 * number, 2 * number)))
    path = written(tmp_path, talk.wire.packets)
    *_, before, last = kshark("deliveries", path, "-T", "json").json
    assert [(len(one["ranges"]), one["more_ranges"]) for one in (before, last)] == [(32, 17), (32, 18)]
    assert "more_ranges" not in kshark("deliveries", path, "-T", "json").json[31]
    assert kshark("deliveries", path).lines[-3].endswith("22 acquired ×1 c1  … 38 more")
    (state,) = kshark("deliveries", path, "-T", "json", "--at", "100000").json
    assert len(state["ranges"]) == 50
    assert kshark("deliveries", path, "--offset", "98").lines[-3].endswith("98 acquired ×1 c1")


def test_the_origin_of_a_record_names_its_cluster(tmp_path: Path, kshark: Run) -> None:
    """Where the capture holds the traffic of several clusters."""
    talk = Conversation()
    for number, cluster in enumerate(("one", "two")):
        connection = talk.connection(f"10.0.0.{number + 8}:9092")
        metadata(connection, {1: f"10.0.0.{number + 8}:9092"}, cluster)
        produced(connection, batch_of(0, 4))
        accepted(connection)
    told = kshark("deliveries", written(tmp_path, talk.wire.packets), "--topic", "t", "--offset", "2").out
    assert [line.partition(" produced")[0] for line in told.splitlines() if "produced" in line] == [
        "offset 2 of t[0] · cluster one",
        "offset 2 of t[0] · cluster two",
    ]


def test_a_real_leader_stores_each_of_its_steps(kshark: Run) -> None:
    """Neighbouring batches in one state are one for a person; every write is beside a change."""
    lines = kshark("deliveries", "-V", CAPTURES / "share-java-explicit.pcap").lines
    stored = [line.strip() for line in lines if line.startswith("        stored packet")]
    assert len(stored) == 124
    assert "stored packet 543  start 40  40-47 archived ×1  48-49 acknowledged ×1  complete 10" in stored
    assert lines[-1] == "293 changes in 4 share partitions"


def test_the_start_offset_passes_aborted_records(kshark: Run) -> None:
    """share.isolation.level is read_committed: the leader stores 62, 77 and 102 with its next writes."""
    rows = kshark("deliveries", CAPTURES / "share-java-explicit.pcap", "-T", "json", "--topic", "orders").json
    past = [row for row in rows if row.get("start_source") == "aborted"]
    assert {row["start_offset"] for row in past} == {62, 77, 102}
    for row in past:
        later = [write for other in rows for write in other.get("stored", ()) if write["packet"] > row["packet"]]
        of_it = [write for write in later if write["partition"] == row["partition"] == 1]
        assert min(of_it, key=lambda write: write["packet"])["start_offset"] == row["start_offset"]


def test_a_record_that_was_aborted_is_called_so(kshark: Run) -> None:
    capture = CAPTURES / "share-java-explicit.pcap"
    _, aborted, none = kshark("deliveries", capture, "--topic", "orders", "--partition", "1", "--offset", "56").lines
    assert aborted == (
        "offset 56 of orders[1] was aborted with a transaction of producer 3 epoch 1 (marker at offset 59, packet 956)"
        ": only groups with read_uncommitted get it"
    )
    assert none == "offset 56: the capture has no delivery of it"


def test_a_group_that_waits_for_a_transaction_is_named(tmp_path: Path, kshark: Run) -> None:
    talk, _ = opened()
    path = written(tmp_path, talk.wire.packets)
    *_, none, wait = kshark("deliveries", path, "--holders").lines
    assert none == "no member holds records, as far as the capture shows"
    assert re.sub(r"\d\d:\S+|packet \d+|[\d.]+ m?s ago", "_", wait) == (
        f"g · {TOPIC}[0]  waits at offset 5 for the open transaction of producer 7 (transactional id tx, client c1, "
        "10.0.0.1) since _ (_, _, its timeout is 1 min 0 s): no record from there on is delivered before it ends, "
        "if its share.isolation.level is read_committed"
    )
    (row,) = kshark("deliveries", path, "--holders", "-T", "json").json
    assert (row["offset"], row["producer_id"], row["timeout_ms"], row["isolation_level"]) == (5, 7, 60_000, None)


@pytest.mark.parametrize(("level", "waits"), [("read_committed", 1), ("read_uncommitted", 0)])
def test_the_isolation_level_of_the_group_decides(tmp_path: Path, kshark: Run, level: str, waits: int) -> None:
    talk, _ = opened()
    sets(talk.connection(), "share.isolation.level", level, group="g")
    rows = kshark("deliveries", written(tmp_path, talk.wire.packets), "--holders", "-T", "json").json
    assert [row["isolation_level"] for row in rows] == [level] * waits

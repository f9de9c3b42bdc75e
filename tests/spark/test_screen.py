"""The check of tables, of which a screen leaves out most, against one process: on conversations of every kind."""

from __future__ import annotations

import pickle
import random
import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kshark.analysis import Observed, in_packet_order
from kshark.analysis.states.partition.window import USUAL
from kshark.face import pages
from kshark.model import RST, SYN, Event, Finding, Weird
from kshark.output.export import Export
from kshark.output.manifest import Capture
from kshark.output.parquet_files import OpenFile
from kshark.output.parquet_part import Part
from kshark.pipeline import JUDGED
from kshark.run import Run
from kshark.tables import TABLES, Rows
from kshark_spark.packing import ASKED_FOR
from tests.analysis.facts.test_brokers import metadata
from tests.analysis.talks import handed, shows
from tests.conversation import Asked, Connection, Conversation, Member, events, registry
from tests.packets import Tcp
from tests.shared import CAPTURES
from tests.spark import working

if TYPE_CHECKING:
    from kshark_spark.tables import Tables

pytestmark = pytest.mark.spark

LAST_EPOCH = 2_147_483_647
ERRORS = (0, 0, 0, 0, 0, 0, 122, 123, 133, -1, 42)


def plain_life(dice: random.Random, member: Member) -> Iterator[None]:
    """As a well-behaved client does, to some point."""
    start = dice.choice((0, 0, 0, 1, 7, LAST_EPOCH))
    partitions = dice.sample(range(4), dice.randint(0, 3))
    epoch = start
    for step in range(dice.randint(1, 6)):
        listed = partitions if step == 0 else []
        acks = [(step, step, 1)] if step and start == 0 and partitions and dice.random() < 0.3 else []
        asked = member.share_fetch(epoch, partitions[:1] if acks else listed, acks=acks)
        if step == 5 or dice.random() < 0.05:
            return
        asked.answered(acquisition_lock_timeout_ms=1000)
        yield
        epoch = 1 if epoch == LAST_EPOCH else epoch + 1
    if dice.random() < 0.6:
        member.share_acknowledge(-1).answered()
    leave(dice, member)


def wild_life(dice: random.Random, members: list[Member]) -> Iterator[None]:
    """Anything at all, on any of the member's connections."""
    epoch = 0
    for _ in range(dice.randint(1, 8)):
        member = dice.choice(members)
        sent = dice.choice((epoch, epoch, epoch, epoch, 0, 1, -1, -2, epoch + 1, max(epoch - 1, 0)))
        if dice.random() < 0.2:
            asked = member.share_acknowledge(sent, [(0, 3, 1)] if dice.random() < 0.5 else [])
        else:
            partitions = [dice.randrange(3) for _ in range(dice.randint(0, 2))]
            acks = [(0, 0, 1)] if partitions and dice.random() < 0.4 else []
            asked = member.share_fetch(sent, partitions, acks=acks, forget=[0] if dice.random() < 0.1 else [])
        if dice.random() < 0.9:
            error = dice.choice(ERRORS)
            asked.answered(error)
            if error == 0 and sent >= 0:
                epoch = sent + 1
        if dice.random() < 0.05:
            member.connection.talk.pause(61)
        if dice.random() < 0.1:
            refuse(dice, member.connection.talk)
        if dice.random() < 0.1:
            dice.choice(members).connection.tcp.reset(1)
        yield
    leave(dice, members[0])


def refuse(dice: random.Random, talk: Conversation) -> None:
    """The broker takes no new connection, or resets one that it has."""
    tcp = Tcp(talk.wire, f"10.0.0.2:{dice.randrange(20_000, 60_000)}", "10.0.0.9:9092")
    tcp._send(0, SYN)
    tcp._send(1, RST)


def leave(dice: random.Random, member: Member) -> None:
    if dice.random() < 0.3:
        member.heartbeat(-1).answered(
            member_id=member.member_id, member_epoch=-1, heartbeat_interval_ms=0, assignment=None
        )
    if dice.random() < 0.4:
        member.connection.close()
    elif dice.random() < 0.2:
        member.connection.reset()


def conversation(seed: int) -> list[Event]:
    """A few members at the same time, of whom about half behave; packets are missing now and then."""
    dice = random.Random(seed)
    talk = Conversation(release=dice.choice((None, "4.0", "4.1", "4.2")))
    lives: list[Iterator[None]] = []
    for number in range(dice.randint(2, 5)):
        first: Connection = talk.connection(introduced=dice.random() < 0.8, from_syn=dice.random() < 0.9)
        member = talk.member(f"m{number}", connection=first, joined=dice.random() < 0.7)
        if dice.random() < 0.5:
            lives.append(plain_life(dice, member))
        else:
            others = [
                member.on(talk.connection(dice.choice(("10.0.0.9:9092", "10.0.0.8:9092"))))
                for _ in range(dice.randint(0, 2))
            ]
            lives.append(wild_life(dice, [member, *others]))
    while lives:
        life = dice.choice(lives)
        if next(life, "over") == "over":
            lives.remove(life)
    lost = [n for n, _ in talk.packets() if dice.random() < 0.02] if dice.random() < 0.5 else []
    return events(talk.without_packets(lost))


def analyzed(happened: list[Event]) -> tuple[list[Finding], Observed]:
    run = Run(registry())
    found = [*run.page(happened), *run.close()]
    return in_packet_order(found), run.observed


def tables_of(spark: Any, talks: dict[str, list[Event]], folder: Path) -> Tables:
    """The tables of many conversations, each a capture of its own, and a row group of its own."""
    from kshark.output.parquet import record_batch
    from kshark_spark.tables import exported

    with Export(folder) as export:
        files = {name: OpenFile(export.attempt.place, export.attempt.id, table) for name, table in TABLES.items()}
        for name, happened in talks.items():
            rows, found = Rows(name), defaultdict[str, list[Any]](list)
            for table, block in (*rows.page(happened), *rows.rest()):
                found[table].append(record_batch(files[table].schema, block))
            for table, batches in found.items():
                files[table].write(batches)
        export.commit([Part([file.close() for file in files.values()], [Capture(name, [], {}) for name in talks])])
    return exported(spark, folder)


@pytest.mark.parametrize(
    "conversations", [pytest.param(6, marks=pytest.mark.slow), pytest.param(80, marks=pytest.mark.slow)]
)
def test_who_passes_unseen_has_no_finding(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conversations: int
) -> None:
    """Of groups at work half are plain, or more; and what is found is found all the same, by however many tasks."""
    from kshark_spark import slices
    from kshark_spark.check import check
    from kshark_spark.screen import screened

    monkeypatch.setattr(slices, "ROWS", 500)
    talks = {f"talk-{seed}": working.conversation(seed) for seed in range(conversations)}
    tables, expected = tables_of(spark, talks, tmp_path), {name: analyzed(happened) for name, happened in talks.items()}
    checked = check(tables, list(talks), 2)
    for name, (findings, seen) in expected.items():
        assert checked[name].findings == findings, name
        assert checked[name].observed == seen, name
    passed = sum(screened(tables, {}, USUAL).clean.values())
    assert passed > sum(seen.sessions for _, seen in expected.values()) / 3, "a screen that stops everybody is none"


@pytest.mark.parametrize("conversations", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_tables_give_the_findings_of_conversations(spark: Any, tmp_path: Path, conversations: int) -> None:
    """Where nearly nobody is plain."""
    from kshark_spark.check import check

    talks = {f"talk-{seed}": conversation(seed) for seed in range(conversations)}
    checked = check(tables_of(spark, talks, tmp_path), list(talks), 2)
    for name, happened in talks.items():
        findings, seen = analyzed(happened)
        assert checked[name].findings == findings, name
        assert checked[name].observed == seen, name


# -- small conversations, checked together


def a_request_cut_short() -> Conversation:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(epoch=0).answered()
    header = struct.pack(">hhih", 78, 1, 77, 2) + b"c1\0"
    body = header + b"\x02g\x17" + b"cut"
    packets = a.connection.tcp.client(struct.pack(">i", len(body)) + body)
    Asked(a.connection, "ShareFetch", 78, 1, 77, packets).answered(122)
    return talk


def two_hundred_in_flight(talk: Conversation) -> Conversation:
    a = talk.member("a", joined=False)
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 99), (0, 100, 199)), acquisition_lock_timeout_ms=30000)
    a.share_fetch(1).answered(acquisition_lock_timeout_ms=30000)
    return talk


def of_an_early_release() -> Conversation:
    """Each step is plain for later releases; what ApiVersions says, no column tells."""
    return two_hundred_in_flight(Conversation(release="4.0"))


def of_a_group_whose_setting_is_shown() -> Conversation:
    talk = Conversation()
    shows(talk.connection(), "share.partition.max.record.locks", 200, group="g")
    return two_hundred_in_flight(talk)


def two_addresses() -> Conversation:
    """Each of them is plain; that both are one broker, Metadata alone tells."""
    talk = Conversation()
    inside, outside = talk.connection("10.0.0.9:9092"), talk.connection("10.0.0.9:9093")
    metadata(inside, {1: "10.0.0.9:9092"})
    metadata(outside, {1: "10.0.0.9:9093"})
    a = talk.member("a", connection=inside)
    a.share_fetch(0).answered()
    a.on(outside).share_fetch(0).answered()
    return talk


#: Each with codes that are found.
SMALL = {
    a_request_cut_short: ["UNDECODABLE_BODY", "SESSION_UNKNOWN"],
    of_an_early_release: ["WINDOW_SATURATED"],
    of_a_group_whose_setting_is_shown: ["WINDOW_SATURATED"],
    two_addresses: ["SESSION_REOPEN"],
}


def test_findings_of_small_conversations_are_those_of_one_process(spark: Any, tmp_path: Path) -> None:
    """What every bucket sees is said once, and few offsets in flight are many for a broker that says so."""
    from kshark_spark.check import check

    talks = {made.__name__: events(made()) for made in SMALL}
    checked = check(tables_of(spark, talks, tmp_path), list(talks), 4)
    for made, codes in SMALL.items():
        expected, seen = analyzed(talks[made.__name__])
        assert {*codes} <= {finding.code for finding in expected}, made
        assert (checked[made.__name__].findings, checked[made.__name__].observed) == (expected, seen), made


@pytest.mark.slow
def test_no_column_tells_of_releases_and_addresses(spark: Any, tmp_path: Path) -> None:
    """The screen lets both pass; what is found of them, other events show."""
    from kshark_spark.screen import screened

    talks = {made.__name__: events(made()) for made in (of_an_early_release, two_addresses)}
    assert screened(tables_of(spark, talks, tmp_path), {}, USUAL).suspects == ([], [])


def _in_order(weird: Weird) -> tuple[int, str]:
    return weird.packet, weird.code


def test_weirds_that_rules_are_about_are_told_to_every_bucket(spark: Any, tmp_path: Path) -> None:
    from kshark_spark.suspects import connections_of

    happened = [event for page in pages([CAPTURES / "tcp-hostile.pcap"], JUDGED) for event in page]
    expected = [event for event in happened if isinstance(event, Weird) and event.code in ASKED_FOR]
    tables = tables_of(spark, {"talk": happened, "another": conversation(1)}, tmp_path)
    told = pickle.loads(connections_of(tables, ["talk", "another"])["talk"].common([]))
    heard = [event for _, event in told if isinstance(event, Weird)]
    assert sorted(heard, key=_in_order) == sorted(expected, key=_in_order)
    assert {"FRAME_LENGTH_INVALID", "SILENCE_UNPROVED"} <= {weird.code for weird in expected}

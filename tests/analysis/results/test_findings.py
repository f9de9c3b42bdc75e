"""Findings from judged arguments: where they stand, who is accused, on what evidence; and what there is to count."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kshark.analysis.facts.argument import EXCHANGE, Argument, Position
from kshark.analysis.facts.judge import Judgement
from kshark.analysis.results.findings import Tally, finding_of, in_packet_order
from kshark.analysis.rules.rule import Rule
from kshark.analysis.runners.verdict import Verdict
from kshark.model import Finding, Witness
from tests.analysis.plain import MS, connection, end, step

RULE = Rule(number=7, code="WRONG", text="It is wrong.", source="", blame=("broker", "client"))
VIOLATION, UNKNOWN, NOTE = Judgement("violation"), Judgement("unknown", "gap"), Judgement("note")


def found(argument: Argument | None = None, judgement: Judgement = VIOLATION, rule: Rule = RULE) -> Finding:
    return finding_of(Verdict(rule, argument or argued(), judgement))


def argued(**more: Any) -> Argument:
    return Argument("it is wrong", more.pop("witness", (step(1, 10), step(2, 20))), EXCHANGE, **more)


def test_a_finding_says_it_all() -> None:
    where = connection(3, "10.0.0.1:50003")
    where.flow.software_name = "librdkafka"
    told = found(argued(witness=(step(2, 20, on=where),), cause="early", partition=("t", 4)))
    assert told == Finding(
        code="WRONG",
        rule=7,
        severity="error",
        verdict="violation",
        blame="broker",
        time_ns=21 * MS,
        packet=21,
        flow=3,
        broker="10.0.0.9:9092",
        client="10.0.0.1:50003",
        group_id="g",
        member_id="a" * 22,
        topic_id="t",
        partition=4,
        cause="early",
        witness=[Witness(3, 2, 20, 21)],
        argument="it is wrong",
        unknown_because=None,
        client_id="c1",
        software="librdkafka",
    )


@pytest.mark.parametrize(
    ("judgement", "severity", "blame"),
    [(VIOLATION, "error", "broker"), (UNKNOWN, "warn", "unknown"), (NOTE, "note", "unknown")],
)
def test_only_violations_accuse(judgement: Judgement, severity: str, blame: str) -> None:
    told = found(judgement=judgement)
    assert (told.verdict, told.severity, told.blame, told.unknown_because) == (
        *judgement[:1],
        severity,
        blame,
        judgement.because,
    )


def test_an_argument_may_accuse_another() -> None:
    assert found(argued(blame="network")).blame == "network"
    assert found(argued(blame="network"), UNKNOWN).blame == "unknown"


def test_where_a_finding_stands() -> None:
    at_request, silent = replace(RULE, at="request"), (step(2, 20, None),)
    assert (found().packet, found().time_ns) == (21, 21 * MS)
    assert (found(rule=at_request).packet, found(rule=at_request).time_ns) == (20, 20 * MS)
    assert found(argued(cause="early"), rule=at_request).packet == 21
    assert found(argued(witness=silent)).packet == 20
    told = found(argued(position=Position(connection(5, "10.0.0.5:1"), 15, 16)))
    assert (told.packet, told.time_ns, told.flow, told.client) == (15, 16, 5, "10.0.0.5:1")


def test_each_witness_is_named_once_the_one_it_is_about_last() -> None:
    one, two, about = step(1, 10), step(2, 20), step(3, 30)
    told = found(argued(witness=(one, two, one, about), ends=(end(25, flow=9),)))
    assert told.witness == [one.witness, two.witness, Witness(9, None, None, None, 25, "closed"), about.witness]


def test_what_there_is_to_count() -> None:
    tally = Tally()
    tally.exchanges, tally.gaps, tally.sessions = 5, 2, 1
    for each in (found(), found(judgement=NOTE), found(judgement=UNKNOWN), found(rule=replace(RULE, code="ALSO"))):
        tally.add(each)
    assert tally.summary() == {
        "sessions": 1, "exchanges": 5, "violations": 2, "unknown": 1, "notes": 1, "gaps": 2,
        "by_code": {"ALSO": 1, "WRONG": 3},
    }  # fmt: skip
    assert list(tally.summary()["by_code"]) == ["ALSO", "WRONG"]


def test_the_order_in_which_they_are_shown() -> None:
    def at(
        packet: int, code: str = "B", cause: str | None = None, flow: int = 0, member: str | None = "m", text: str = "x"
    ) -> Finding:
        about = step(1, packet - 1, on=connection(flow), member=member)
        return found(Argument(text, (about,), EXCHANGE, cause), rule=replace(RULE, code=code))

    ordered = [
        at(4, "Z"), at(5, "Z", "early"), at(5, "A"), at(5, "B", member=None), at(5, "B", text="w"), at(5, "B"),
        at(5, "B", flow=1),
    ]  # fmt: skip
    assert in_packet_order(reversed(ordered)) == ordered

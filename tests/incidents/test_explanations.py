"""Findings that an incident explains or excuses."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kshark import limits
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.rules.rule import Rule
from kshark.incidents import Explanations
from kshark.incidents.incident import Incident, Where
from kshark.incidents.watchers.network import NETWORK_OUTAGE
from kshark.model import Ends, Finding, Flow, Witness

ROW = Rule(
    number=129,
    code="BROKER_SILENT",
    text="",
    source="",
    explains=("REQUEST_UNANSWERED",),
    excuses=("HEARTBEAT_LATE",),
)
FLOW = Flow(0, Ends("10.0.0.1:50001", "10.0.0.9:9092"), 1, 0)
LATE = Finding(
    "HEARTBEAT_LATE", 90, "error", "violation", "client", 0, 30, 0, "10.0.0.9:9092", "10.0.0.1:50001", "g", "m",
    None, None, None, [Witness(0, 1, 12, 13), Witness(0, 2, 30, 31)], "", None,
)  # fmt: skip


def explained(finding: Finding, since: int = 10, until: int | None = 20, **where: Any) -> Finding:
    because = where.pop("because", None)
    explanations = Explanations()
    end = None if until is None else PacketTime(until, 0)
    incident = Incident(ROW, PacketTime(since, 0), end, FLOW, "", Where(**where), because=because)
    explanations.add(incident, incident.finding())
    return explanations.explained(finding)


def test_an_incident_in_the_time_of_the_evidence_excuses_a_finding() -> None:
    found = explained(LATE)
    assert (found.verdict, found.severity, found.blame, found.unknown_because) == ("note", "note", "unknown", "event")
    assert (found.event_code, found.event_packet) == ("BROKER_SILENT", 10)


def test_an_incident_that_it_only_explains_leaves_the_verdict() -> None:
    found = explained(replace(LATE, code="REQUEST_UNANSWERED"))
    assert (found.verdict, found.blame, found.event_code) == ("violation", "client", "BROKER_SILENT")


def test_a_note_stays_a_note() -> None:
    note = replace(LATE, verdict="note", severity="note", blame="unknown")
    assert replace(explained(note), event_code=None, event_packet=None) == note


def test_an_incident_that_is_not_proved_makes_the_finding_unknown_for_its_reason() -> None:
    found = explained(LATE, because="clock")
    assert (found.verdict, found.unknown_because, found.event_code) == ("unknown", "clock", "BROKER_SILENT")


@pytest.mark.parametrize(("since", "until"), [(31, None), (31, 40), (5, 11)])
def test_an_incident_at_another_time_explains_nothing(since: int, until: int | None) -> None:
    assert explained(LATE, since, until) is LATE


@pytest.mark.parametrize(("since", "until"), [(1, 12), (30, 30), (12, None), (1, None)])
def test_one_packet_in_common_is_enough(since: int, until: int | None) -> None:
    assert explained(LATE, since, until).verdict == "note"


@pytest.mark.parametrize(
    ("here", "elsewhere"),
    [
        ({"brokers": frozenset({"10.0.0.9:9092"})}, {"brokers": frozenset({"10.0.0.8:9092"})}),
        ({"flows": frozenset({0, 1})}, {"flows": frozenset({1})}),
        ({"hosts": frozenset({"10.0.0.1"})}, {"hosts": frozenset({"10.0.0.2"})}),
        ({"group_id": "g"}, {"group_id": "h"}),
        ({"member_id": "m"}, {"member_id": "n"}),
        ({"client_id": None}, {"client_id": "c"}),
        ({"topic_ids": None}, {"topic_ids": frozenset({"t"})}),
        ({"partition": None}, {"partition": 0}),
    ],
)
def test_an_incident_elsewhere_explains_nothing(here: dict[str, Any], elsewhere: dict[str, Any]) -> None:
    assert explained(LATE, **here).verdict == "note"
    assert explained(LATE, **elsewhere) is LATE


def test_the_last_incident_that_fits_is_named_whatever_came_after_it() -> None:
    explanations = Explanations()
    for since, until in ((1, 5), (2, 40), (11, 12), (13, 14), (26, 27)):
        host = "10.0.0.2" if since in (13, 26) else "10.0.0.1"
        where = Where(hosts=frozenset({host}))
        incident = Incident(ROW, PacketTime(since, 0), PacketTime(until, 0), FLOW, "", where)
        explanations.add(incident, incident.finding())
    assert explanations.explained(LATE).event_packet == 11
    assert explanations.explained(replace(LATE, witness=[Witness(0, 2, 30, 31)])).event_packet == 2


def test_a_limit_of_incidents_leaves_findings_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INCIDENTS", 1)
    explanations = Explanations()
    for since in (1, 28):
        incident = Incident(ROW, PacketTime(since, 0), PacketTime(since + 1, 0), FLOW, "", Where())
        explanations.add(incident, incident.finding())
    assert explanations.explained(LATE) is LATE


OVERDUE = replace(LATE, code="REQUEST_OVERDUE", verdict="note", blame="unknown", witness=[Witness(0, 1, 30, None)])


@pytest.mark.parametrize(("until", "since", "fits"), [(50, 40, True), (None, 40, True), (50, 51, False)])
def test_what_explains_an_incident_may_begin_while_it_lasts(*, until: int | None, since: int, fits: bool) -> None:
    lasting = replace(OVERDUE, until_packet=until, until_ns=until)
    assert (by_outage(lasting, since).event_code == "NETWORK_OUTAGE") == fits


def test_an_incident_whose_party_is_proved_is_explained_by_none_that_blames_another() -> None:
    lasting = replace(OVERDUE, until_packet=50)
    assert by_outage(replace(lasting, blame="broker")).event_code is None
    assert by_outage(replace(lasting, blame="network")).event_code == "NETWORK_OUTAGE"


def test_an_incident_of_a_broker_alone_is_explained_whatever_the_host() -> None:
    silent = replace(OVERDUE, code="BROKER_SILENT", client="", until_packet=50)
    assert by_outage(silent, hosts=frozenset({"10.0.0.7"})).event_code == "NETWORK_OUTAGE"
    assert by_outage(replace(silent, client=OVERDUE.client), hosts=frozenset({"10.0.0.7"})).event_code is None


def by_outage(finding: Finding, since: int = 40, **where: Any) -> Finding:
    explanations = Explanations()
    outage = Incident(NETWORK_OUTAGE, PacketTime(since, 0), PacketTime(60, 0), FLOW, "", Where(**where))
    explanations.add(outage, outage.finding())
    return explanations.explained(finding)

"""The answer keys about bytes: what hand-made clients sent is named as its maker meant it, and what brokers took
accuses nobody."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from typing import Any, Final

import pytest

from kshark.analysis import RULES, Analyzer
from kshark.face import pages
from kshark.model import Finding
from kshark.pipeline import Options
from tests.answers import steps_of
from tests.shared import CAPTURES

FRAMES: Final = CAPTURES / "adv-frames.pcap"
#: Steps at which no rule was broken after all.
NEARLY: Final = {
    "ApiVersions with a malformed software name (42)": "its version is one that the broker offers",
    "Produce v12 acks=0": "nobody answered it",
    "Produce acks=0 to an unknown topic": "nobody answered it",
}
#: Rules that the hand-made batches break, by what their maker calls them.
LIES: Final = {
    "bad crc": {124},
    "batch length too short": {124},
    "count 3, two records": {125},
    "count 1, two records": {125, 126},
    "count 2^31-1": {125},
    "count -1": {125, 126},
    "last offset delta disagrees": {125},
    "codec 7": {127},
    "magic 0 message set": {128},
    "magic 1 message set": {128},
    "magic 0 with bad crc": {128},
    "magic 0 then batch": {128},
}


def checked(name: str, options: Options) -> dict[str, list[Finding]]:
    """Findings by the port of their client."""
    analyzer, found = Analyzer(), defaultdict(list)
    told = [finding for page in pages([CAPTURES / name], options) for finding in analyzer.page(page)]
    for finding in (*told, *analyzer.close()):
        found[finding.client.rpartition(":")[2]].append(finding)
    return found


@pytest.fixture(scope="module")
def of_frames() -> dict[str, list[Finding]]:
    return checked("adv-frames.pcap", Options(records="checked"))


@pytest.mark.parametrize("step", steps_of(FRAMES), ids=lambda step: step["sent"])
def test_each_step_breaks_the_rule_that_it_was_made_for(
    step: dict[str, Any], of_frames: dict[str, list[Finding]]
) -> None:
    here = of_frames[str(step["client_port"])]
    if step["request_packet"] is not None:
        here = [it for it in here if any(one.request_packet == step["request_packet"] for one in it.witness)]
    broken = {it.rule for it in here}
    meant = {*step["rules"]} & {rule.number for rule in RULES}
    assert bool(broken & meant) == (bool(meant) and step["sent"] not in NEARLY), here


def test_batches_that_lie_are_told_apart_from_those_that_do_not() -> None:
    found = checked("hostile-records.pcap", Options(payload=False))
    truth = json.loads(gzip.decompress((CAPTURES / "hostile-records.truth.json.gz").read_bytes()))
    for event in truth["events"]:
        if "local_port" in event:
            name = event["event"].removeprefix("records: ")
            rules = {it.rule for it in found[str(event["local_port"])] if it.verdict == "violation"}
            assert rules == LIES.get(name, set()), (event["local_port"], name)
            assert not rules or event["error_code"]

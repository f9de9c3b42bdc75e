"""Real captures: what is found of a session does not depend on what becomes of others."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from kshark.analysis import RULES
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.model import Finding
from tests.shared import CAPTURES
from tests.thinning import Mask, Whole, findings_of

SHARED_CONNECTIONS = {"adv-epochs": 1, "adv-sessions-4.2.1": 6, "adv-races-4.1.2": 4}


#: Rules of records that members of a group pass on to each other: what one of them did explains what another one got.
OF_RECORDS = {rule.code for rule in RULES if rule.machine is IN_FLIGHT}


def by_member(found: list[Finding]) -> dict[str | None, list[tuple[str, str, int]]]:
    """Code, verdict and packet of each member's findings, as far as they are about it alone."""
    out = defaultdict(list)
    for finding in found:
        if finding.code in OF_RECORDS:
            continue
        out[finding.member_id].append((finding.code, finding.verdict, finding.packet))
    return {member: sorted(findings) for member, findings in out.items()}


def ends_of(whole: Whole, keep: Mask) -> set[int]:
    """The packets that are missing."""
    return set(whole.number[~keep].tolist())


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", SHARED_CONNECTIONS)
def test_findings_of_other_members_survive_a_missing_connection(name: str) -> None:
    whole = Whole.load(CAPTURES / f"{name}.pcap")
    everything = findings_of(whole, whole.everything())
    known = by_member(everything)
    untouched = 0
    for pair in sorted({path >> 1 for path in whole.path.tolist()} - {-1}):
        keep = (whole.path >> 1) != pair
        missing = ends_of(whole, keep)
        hit = {
            f.member_id
            for f in everything
            for w in f.witness
            if {w.request_packet, w.response_packet, f.packet} & missing
        }
        thinned = by_member(findings_of(whole, keep))
        for member in known.keys() - hit:
            untouched += 1
            assert thinned.get(member) == known[member]
    assert untouched > SHARED_CONNECTIONS[name]


@pytest.mark.parametrize("name", SHARED_CONNECTIONS)
def test_findings_from_the_first_half_survive_the_loss_of_the_second(name: str) -> None:
    whole = Whole.load(CAPTURES / f"{name}.pcap")
    everything = findings_of(whole, whole.everything())
    half = len(whole.number) // 2
    thinned = findings_of(whole, np.arange(len(whole.number)) < half)
    early = [f for f in everything if f.code != "CONCURRENT_SESSION_REQUESTS" and f.packet < whole.number[half]]
    proved = {(f.code, f.verdict, f.packet, f.argument) for f in thinned}
    lasting = [f for f in early if all((w.response_packet or 0) < whole.number[half] for w in f.witness)]
    assert lasting
    assert {(f.code, f.verdict, f.packet, f.argument) for f in lasting} <= proved

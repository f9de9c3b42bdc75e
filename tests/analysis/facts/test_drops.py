"""The capturing host drops packets, and says so where it did: what cannot be proved for that reason says so too."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from kshark.analysis import Analyzer
from kshark.analysis.facts.holes import Drops
from kshark.incidents import Incidents
from kshark.model import Finding, PacketBatch, Weird
from kshark.pipeline import Engine
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation, registry
from tests.packets import batch


def dropped(packet: int) -> Weird:
    """Packets were dropped after this one."""
    return Weird("PACKETS_DROPPED", "capture", packet, 0, "2 packets dropped by the kernel")


def judged(talk: Conversation, lost: Collection[int], weirds: Collection[Weird]) -> list[Finding]:
    """The findings of what is left without the lost packets, with the weirds in their places."""
    rows = talk.without_packets(lost).packets()
    items: list[PacketBatch | Weird] = []
    for number, packet in rows:
        row = batch([packet])
        row.number = np.array([number], np.int64)
        items.append(row)
        items += [weird for weird in weirds if weird.packet == number]
    analyzer, incidents = Analyzer(), Incidents(registry())
    findings = []
    for page in Engine(registry=registry()).pages(items):
        findings += [*analyzer.page(page), *incidents.page(page)]
    return [*findings, *analyzer.close(), *incidents.close()]


def reasons(talk: Conversation, lost: Collection[int], weirds: Collection[Weird]) -> set[str | None]:
    return {finding.unknown_because for finding in judged(talk, lost, weirds) if finding.code == "EPOCH_REFUSED"}


def conversation() -> tuple[Conversation, list[int]]:
    """A session of which one exchange is lost, just before a refusal that it would explain."""
    talk = Conversation()
    member = talk.member("a")
    for epoch in range(4):
        member.share_fetch(epoch).answered()
    lost = member.share_fetch(4).answered()
    member.share_fetch(6).answered(INVALID_SHARE_SESSION_EPOCH)
    for _ in range(80):
        member.heartbeat(1).answered()
    return talk, lost.all_packets


@pytest.mark.parametrize("before", [0, 1], ids=["of the packet before", "of the packet after"])
def test_the_reason_is_the_drop_where_it_is_said(before: int) -> None:
    talk, lost = conversation()
    assert reasons(talk, lost, [dropped(min(lost) - 1 + before * (len(lost) + 1))]) == {"capture_lost"}


def test_a_drop_elsewhere_is_not_the_reason() -> None:
    talk, lost = conversation()
    assert reasons(talk, lost, []) == {"gap"}
    assert reasons(talk, lost, [dropped(3)]) == {"gap"}
    assert reasons(talk, lost, [dropped(max(lost) + 40)]) == {"gap"}


def test_a_drop_changes_no_verdict() -> None:
    talk, lost = conversation()
    with_drop, without = (
        [(it.code, it.verdict, it.packet) for it in judged(talk, lost, weirds)]
        for weirds in ([dropped(min(lost) - 1)], [])
    )
    assert with_drop == without


def test_a_drop_lies_between_its_packets() -> None:
    drops = Drops()
    drops.note(Weird("PACKETS_DROPPED", "capture", 20, 0, first_packet=10))
    drops.note(Weird("CLOCK_STEP", "link", 50, 0))
    assert [drops.reason(*packets) for packets in ((1, 9), (1, 10), (12, 15), (20, 30), (22, 30), (50, 51))] == [
        "gap",
        "capture_lost",
        "capture_lost",
        "capture_lost",
        "gap",
        "gap",
    ]

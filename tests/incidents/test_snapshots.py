"""Incidents survive a snapshot after each packet."""

from __future__ import annotations

import numpy as np

from kshark.model import Finding
from kshark.pipeline import JUDGED, Engine
from kshark.run import Run
from kshark.snapshot import load, save
from kshark_dissectors.enums import ErrorCode
from tests.conversation import TOPIC, Conversation, registry
from tests.incidents import test_closings as closings
from tests.incidents import test_dead_letters as dead_letters
from tests.incidents import test_endpoints as endpoints
from tests.incidents import test_network as network
from tests.incidents import test_rebalances as rebalances
from tests.incidents import test_sasl as sasl
from tests.incidents import test_tls as tls
from tests.incidents import test_topics as topics
from tests.incidents.test_members import Talk
from tests.packets import batch


def troubled() -> Conversation:
    """A conversation with one incident of each kind about members, topics and quotas."""
    stopped = Talk()
    talk = stopped.talk
    stopped.beats(10)
    stopped.member.share_fetch(1).answered(throttle_time_ms=1000)
    for _ in range(2):
        for name in ("b", "c"):
            talk.member(name).share_fetch(0, [0]).answered(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
    dead_letters.queue_of(talk.connection())
    dead_letters.metadata(talk.connection(), error=3)
    stopped.member.share_acknowledge(2, [(0, 4, dead_letters.REJECT)]).answered()
    topics.done(topics.delete(topics.admin(talk)))
    stopped.member.share_fetch(3).answered(responses=topics.GONE)
    return talk


def found(talk: Conversation, *, saved: bool, every: int = 10) -> list[Finding]:
    engine, run = Engine(JUDGED, registry()), Run(registry())
    for number, packet in talk.packets():
        some = batch([packet])
        some.number = np.array([number], np.int64)
        for page in engine.feed(some):
            run.page(page)
        if saved and number % every == 0:
            engine, run = load(save(engine, run), registry())
    for page in engine.close():
        run.page(page)
    run.close()
    return [*run.findings]


def test_incidents_survive_snapshots() -> None:
    talk = troubled()
    whole = found(talk, saved=False)
    assert {finding.code for finding in whole} >= {
        "MEMBER_STOPPED_FETCHING",
        "TOPIC_DELETED_IN_USE",
        "SESSION_TABLE_FULL",
        "THROTTLED",
        "DEAD_LETTER_LOST",
    }
    assert found(talk, saved=True) == whole
    assert TOPIC in {finding.topic_id for finding in whole}


def test_incidents_of_connections_survive_snapshots() -> None:
    talk = Conversation()
    for _ in range(3):
        closings.closed(talk)
        tls.fails(talk, 1, wants=True)
    closings.answered(talk)
    endpoints.metadata(talk.connection())
    endpoints.silent(talk, 40_000)
    endpoints.refused(talk, 40_001)
    sasl.forgets(talk)
    whole = found(talk, saved=False)
    assert {finding.code for finding in whole} >= {
        "CLOSED_INSTEAD_OF_ANSWER",
        "ENDPOINT_UNREACHABLE",
        "SASL_SESSION_EXPIRED",
        "TLS_HANDSHAKE_FAILED",
    }
    assert found(talk, saved=True) == whole


def test_rebalances_survive_snapshots() -> None:
    talk = Conversation()
    rebalances.storm(talk)
    rebalances.dead(talk)
    whole = found(talk, saved=False)
    assert {"REBALANCE", "REBALANCE_STORM"} <= {finding.code for finding in whole}
    assert found(talk, saved=True) == whole


def test_incidents_whose_time_a_later_packet_may_prove_survive_snapshots() -> None:
    """Also one that explains no error code, as in net-gave-up.pcap."""
    talk, members = network.start()
    talk.wire.stamped = False
    asked = [member.heartbeat(1) for member in members]
    talk.pause(20)
    network.again(talk, [request.sent for request in asked], (0.0,))
    for request in asked:
        request.given(1)
    network.beat(members[0])
    whole = found(talk, saved=False)
    assert [(finding.code, finding.unknown_because) for finding in whole] == [("NETWORK_OUTAGE", "clock")]
    assert found(talk, saved=True, every=1) == whole

"""What happens, case by case: a function that lets it happen in a scene, and the brokers that it needs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from tests.trouble.events import network, raw_cases
from tests.trouble.events.certificates import make_certificates
from tests.trouble.events.scene import TOPIC, Case, Listener, Scene, stop
from tests.trouble.security import passwords

_BETWEEN_SECONDS: Final = 6


def broker_silent(scene: Scene) -> None:
    """A broker is stopped (SIGSTOP) six times."""
    scene.make_topic()
    scene.usual()
    for seconds in (1.5, 2, 3, 4, 5, 6):
        time.sleep(_BETWEEN_SECONDS)
        scene.silence(seconds)
    time.sleep(_BETWEEN_SECONDS)


def broker_down(scene: Scene) -> None:
    """One of two brokers is killed twice and shut down once; the other one lives on."""
    scene.make_topic(replicas=2, partitions=4)
    scene.usual()
    time.sleep(5)
    scene.restart(1, kill=True, down_seconds=3)
    time.sleep(12)
    scene.restart(1, kill=False, down_seconds=3)
    time.sleep(12)
    scene.restart(1, kill=True, down_seconds=8)
    time.sleep(12)


def broker_down_alone(scene: Scene) -> None:
    """The only broker is killed, and later shut down."""
    scene.make_topic()
    scene.usual()
    time.sleep(8)
    scene.restart(0, kill=True, down_seconds=2)
    time.sleep(15)
    scene.restart(0, kill=False, down_seconds=4)
    time.sleep(15)


def outage(scene: Scene) -> None:
    """Packets between hosts and the broker are lost in one direction, then in the other, then in both."""
    scene.make_topic()
    scene.usual()
    outages: tuple[tuple[tuple[int, ...], tuple[str, ...], float], ...] = (
        ((12,), ("broker",), 5),
        ((12,), ("client",), 6),
        ((11, 12, 13), ("broker",), 10),
        ((11, 12, 13), ("client",), 15),
        ((12, 13), ("broker", "client"), 7),
    )
    for hosts, directions, seconds in outages:
        time.sleep(12)
        start = time.time_ns()
        for towards in directions:
            network.lose(hosts, towards)
        time.sleep(seconds)
        network.lose_nothing()
        end, by = time.time_ns(), f"packets towards the {' and the '.join(directions)} dropped"
        scene.do(f"{by} on the way of hosts {hosts} for {seconds} s before this")
        for host in hosts:
            scene.happened("NETWORK_OUTAGE", start, end, by, broker=scene.name(), client=network.address(host))
    time.sleep(15)


def member_stops(scene: Scene) -> None:
    """A share member does not poll for 40 s; its heartbeats go on."""
    scene.make_topic()
    members, *_ = scene.usual()
    time.sleep(10)
    with scene.event("MEMBER_STOPPED_FETCHING", "the application does not poll", client="s2"):
        members.tell("pause s2")
        time.sleep(40)
        members.tell("resume s2")
    time.sleep(10)


def healthy(scene: Scene) -> None:
    """Nothing happens but a start, a rolling restart of consumers and a clean end."""
    scene.make_topic()
    members, consumers, _ = scene.usual()
    time.sleep(20)
    members.end()
    scene.run(12, f"share:s1:ga:{TOPIC}", f"share:s2:ga:{TOPIC}").await_ready()
    time.sleep(10)
    consumers.end()
    scene.run(13, f"share:s3:gb:{TOPIC}", f"consumer:c1:gc:{TOPIC}", f"classic:c2:gd:{TOPIC}").await_ready()
    time.sleep(20)


def healthy_cluster(scene: Scene) -> None:
    """The same with two brokers."""
    scene.make_topic(replicas=2, partitions=4)
    scene.usual()
    time.sleep(60)


#: A cluster of two is soon itself again, and a broker that comes back soon leads again.
_REPLICATED: Final = {
    "leader.imbalance.check.interval.seconds": 3,
    "broker.session.timeout.ms": 6000,
    "offsets.topic.replication.factor": 2,
    "share.coordinator.state.topic.replication.factor": 2,
}


def small_troubles(scene: Scene) -> None:
    """What is too short or too ordinary for an event: short stops, a client that dies, one that works for long."""
    scene.make_topic()
    members, consumers, producers = scene.usual()
    for seconds in (0.5, 0.8):
        time.sleep(5)
        scene.do(f"SIGSTOP of the broker, {seconds} s")
        stop(scene.brokers[0].signal, seconds)
    time.sleep(5)
    scene.do("s1 does not poll for 20 s")
    members.tell("pause s1")
    time.sleep(20)
    members.tell("resume s1")
    time.sleep(3)
    scene.do("SIGSTOP of share members, 4 s")
    stop(members.process.send_signal, 4)
    time.sleep(3)
    scene.do("packets towards the broker dropped on the way of host 12, 0.8 s")
    network.lose((12,), "broker")
    time.sleep(0.8)
    network.lose_nothing()
    time.sleep(3)
    scene.do("SIGKILL of s3, c1 and c2")
    consumers.process.kill()
    time.sleep(3)
    scene.do("nobody produces for 10 s")
    for name in ("p1", "p2"):
        producers.tell(f"pause {name}")
    time.sleep(10)
    for name in ("p1", "p2"):
        producers.tell(f"resume {name}")
    time.sleep(5)


_AFTER_DOWN: Final = frozenset({"ENDPOINT_UNREACHABLE"})

#: Room for three of eight members.
_SMALL_TABLE: Final = {"group.share.max.share.sessions": 3, "group.share.max.size": 3}
_TLS: Final = {
    raw_cases.TLS: Listener("SSL"),
    raw_cases.MUTUAL: Listener("SSL"),
    raw_cases.MODERN: Listener("SSL"),
}
_TLS_SETTINGS: Final = {
    "listener.name.mutual.ssl.client.auth": "required",
    "listener.name.modern.ssl.enabled.protocols": "TLSv1.3",
}
_OUTSIDE: Final = {
    raw_cases.BLACKHOLE: Listener("PLAINTEXT", raw_cases.NOWHERE),
    raw_cases.REFUSED: Listener("PLAINTEXT", raw_cases.CLOSED),
}

CASES: Final[Mapping[str, Case]] = {
    "broker-silent": Case(broker_silent),
    "broker-down": Case(broker_down, brokers=2, settings=_REPLICATED, allowed=_AFTER_DOWN),
    "broker-down-alone": Case(broker_down_alone, allowed=_AFTER_DOWN),
    "outage": Case(outage, hosts_too=True),
    "member-stops": Case(member_stops, settings={"group.share.heartbeat.interval.ms": 2000}),
    "topic-deleted": Case(raw_cases.topic_deleted),
    "throttled": Case(raw_cases.throttled),
    "table-full": Case(raw_cases.table_full, settings=_SMALL_TABLE),
    "sasl-expired": Case(raw_cases.sasl_expired, security=passwords(5000)),
    "tls-refused": Case(raw_cases.tls_refused, listeners=_TLS, settings=_TLS_SETTINGS, files=make_certificates),
    "not-reading": Case(raw_cases.not_reading),
    "retries": Case(raw_cases.retries, brokers=2, settings=_REPLICATED),
    "closed": Case(raw_cases.closed),
    "unreachable": Case(raw_cases.unreachable, listeners=_OUTSIDE),
    "idle-lost": Case(raw_cases.idle_lost),
    "overdue": Case(
        raw_cases.overdue,
        brokers=2,
        settings=_REPLICATED,
        allowed=frozenset({"REQUEST_OVERDUE"}),  # of the controller
    ),
    "small-troubles": Case(small_troubles),
    "healthy": Case(healthy),
    "healthy-cluster": Case(healthy_cluster, brokers=2, settings=_REPLICATED),
}

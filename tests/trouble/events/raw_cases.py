"""What clients do wrong, and what is done to them, with clients of our own that send what a case needs."""

from __future__ import annotations

import contextlib
import signal
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.trouble.events import network
from tests.trouble.events.certificates import CERTIFICATE, WRONG_AUTHORITY
from tests.trouble.events.raw import Raw, produce, sasl
from tests.trouble.events.scene import TOPIC, Scene, stop
from tests.trouble.security import ADMINISTRATOR, CLIENT, PASSWORD

#: The host of raw clients, on which no others are.
RAW: Final = 14
#: Listeners of cases, by name: with TLS, with a client's certificate too, with TLS 1.3 only; an address that nobody
#: answers on (RFC 5737), and one that refuses.
TLS, MUTUAL, MODERN, BLACKHOLE, REFUSED = "TLS", "MUTUAL", "MODERN", "BLACKHOLE", "REFUSED"
NOWHERE: Final = ("192.0.2.1", 9092)
CLOSED: Final = (network.address(1), 1)
_NO_METADATA: Final[Mapping[str, Any]] = {"topics": [], "allow_auto_topic_creation": False}


# -- quotas


def set_quota(scene: Scene, client_id: str, quota: str, value: float | None) -> None:
    """Set a quota of a client id, or take it back."""
    ops = [{"key": quota, "value": value or 0.0, "remove": value is None}]
    entry = {"entity": [{"entity_type": "client-id", "entity_name": client_id}], "ops": ops}
    with scene.raw(11, name="admin") as admin:
        answer = admin.ask("AlterClientQuotas", 1, {"entries": [entry], "validate_only": False})
    assert answer["entries"][0]["error_code"] == 0, answer
    scene.do(f"quota {quota} of {client_id}: {value}")


def throttled(scene: Scene) -> None:
    """Quotas for a producer, a share member, and for two raw producers of which only one waits when throttled."""
    scene.make_topic()
    scene.usual()
    time.sleep(5)
    quotas = {("p1", "producer_byte_rate"): 600, ("s1", "request_percentage"): 0.2}
    for (client_id, quota), value in quotas.items():
        set_quota(scene, client_id, quota, value)
    for name in ("greedy", "patient"):
        set_quota(scene, name, "producer_byte_rate", 2000)
    time.sleep(2)
    for name, waits in (("greedy", False), ("patient", True)):
        with scene.raw(RAW, name=name) as client:
            for _ in range(12):
                answer = client.ask("Produce", 8, produce(TOPIC, 0, 3000, now_ms=time.time_ns() // 1_000_000))
                if waits:
                    time.sleep(answer["throttle_time_ms"] / 1000 + 0.01)
    time.sleep(10)
    for client_id, quota in quotas:
        set_quota(scene, client_id, quota, None)
    time.sleep(10)
    spans: dict[str, tuple[int, int]] = {}
    for time_ns, row in scene.answers():
        throttle_ms = row["response"].get("throttleTimeMs", 0)
        if throttle_ms:
            name = row["requestHeader"]["clientId"]
            first, last = spans.get(name, (time_ns, time_ns))
            spans[name] = first, max(last, time_ns + throttle_ms * 1_000_000)
    for name, (first, last) in spans.items():
        by = "a quota, and the client does not wait (cause ignored)" if name == "greedy" else "a quota"
        scene.happened("THROTTLED", first, last, f"{by}: answers with a throttle time in the broker's log", client=name)


# -- sessions


def table_full(scene: Scene) -> None:
    """Eight share members, and a broker that holds three sessions."""
    scene.make_topic()
    scene.run(11, f"producer:p1:{TOPIC}:10:100:all", f"producer:p2:{TOPIC}:10:100:1", "admin:a1").await_ready()
    scene.run(12, *(f"share:s{number}:ga:{TOPIC}" for number in (1, 2, 3))).await_ready()
    time.sleep(8)
    others = [
        scene.run(13, *(f"share:s{number}:gb:{TOPIC}" for number in (4, 5, 6))),
        scene.run(RAW, *(f"share:s{number}:gc:{TOPIC}" for number in (7, 8))),
    ]
    time.sleep(30)
    for application in others:
        application.end()
    time.sleep(8)
    refused = [(t, row) for t, row in scene.answers() if row["response"].get("errorCode") == 133]
    clients = sorted({row["requestHeader"]["clientId"] for _, row in refused})
    assert refused, "no member was refused"
    by = f"{len(refused)} answers 133 in the broker's log, to {', '.join(clients)}"
    scene.happened("SESSION_TABLE_FULL", refused[0][0], refused[-1][0], by, broker=scene.name())


# -- topics


def topic_deleted(scene: Scene) -> None:
    """An administrator deletes a topic that is in use, and makes it again; and one that nobody uses."""
    for topic in (TOPIC, "unused"):
        scene.make_topic(topic)
    scene.usual()
    for topic in ("unused", TOPIC):
        time.sleep(8)
        with scene.raw(11, name="admin") as admin:
            answer = admin.ask("DeleteTopics", 5, {"topic_names": [topic], "timeout_ms": 5000})
        assert answer["responses"][0]["error_code"] == 0, answer
        scene.do(f"topic {topic} is deleted")
    scene.happened("TOPIC_DELETED_IN_USE", time.time_ns(), None, "DeleteTopics was answered", topic=TOPIC)
    time.sleep(12)
    scene.make_topic()
    scene.do(f"topic {TOPIC} is made again")
    time.sleep(15)


# -- security


def sasl_expired(scene: Scene) -> None:
    """Sessions of SASL last for five seconds: Java clients say again who they are, one of ours does, one does not."""
    for topic in (TOPIC, "secret"):
        scene.make_topic(topic)
    scene.usual(settings=scene.security.of_java[CLIENT])
    time.sleep(5)
    with scene.raw(RAW, name="renewing") as client:
        for _ in range(4):
            sasl(client, CLIENT, PASSWORD)
            for _ in range(20):
                client.ask("Metadata", 12, _NO_METADATA)
                time.sleep(0.1)
    for _ in range(3):
        with scene.raw(RAW, name="forgetful") as client:
            sasl(client, CLIENT, PASSWORD)
            with contextlib.suppress(EOFError, ConnectionError):
                while True:
                    client.ask("Metadata", 12, _NO_METADATA)
                    time.sleep(0.1)
            by = "the client goes on after its session and the broker closes"
            scene.happened("SASL_SESSION_EXPIRED", time.time_ns(), None, by, client=client.client, broker=scene.name())
        time.sleep(2)
    with scene.raw(RAW, name="leaving") as client:
        sasl(client, CLIENT, PASSWORD)
        time.sleep(3)
    _deny(scene, "secret")
    with scene.raw(RAW, name="denied") as client:
        sasl(client, CLIENT, PASSWORD)
        refused = produce("secret", 0, 10, now_ms=time.time_ns() // 1_000_000)
        with scene.event("RETRY_WITHOUT_REMEDY", "produces without the right to", client="denied"):
            for _ in range(15):
                answer = client.ask("Produce", 9, refused)
                time.sleep(0.1)
    scene.do(f"the last answer to denied: {answer}")
    with scene.event(
        "RETRY_WITHOUT_REMEDY", "a wrong password, 30 connections", optional=True, client="wrong-password"
    ):
        for _ in range(30):
            with scene.raw(RAW, name="wrong-password") as client, contextlib.suppress(EOFError, ConnectionError):
                sasl(client, CLIENT, "wrong")
    time.sleep(5)


def _deny(scene: Scene, topic: str) -> None:
    """Take the right to write to a topic from clients on the raw clients' host; others have no right to it, either."""
    rule = {
        **{"resource_type": 2, "resource_name": topic, "resource_pattern_type": 3},
        **{"principal": f"User:{CLIENT}", "host": network.address(RAW), "operation": 4, "permission_type": 2},
    }
    with scene.raw(name="admin") as admin:
        sasl(admin, ADMINISTRATOR, PASSWORD)
        answer = admin.ask("CreateAcls", 3, {"creations": [rule]})
    assert answer["results"][0]["error_code"] == 0, answer
    scene.do(f"clients on {network.address(RAW)} may not write to {topic} any more")


def tls_refused(scene: Scene) -> None:
    """Handshakes that one side refuses, in TLS 1.2 and 1.3; and what only looks like one."""
    scene.make_topic()
    scene.usual()
    trust = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": scene.folder / CERTIFICATE,
        "bootstrap.servers": "{}:{}".format(*scene.listeners[TLS]),
        "ssl.endpoint.identification.algorithm": "",
    }
    scene.run(15, f"producer:p3:{TOPIC}:5:100:1", settings=trust).await_ready()
    two, three = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    for version in (two, three):
        for why, listener, authority in (
            ("the client does not know the broker's authority", TLS, WRONG_AUTHORITY),
            ("the client has no certificate and the broker wants one", MUTUAL, CERTIFICATE),
        ):
            for _ in range(2):
                time.sleep(1)
                _refuse(scene, why, listener, authority, version)
    _refuse(scene, "the broker speaks TLS 1.3 only", MODERN, CERTIFICATE, two)
    time.sleep(2)
    with (
        scene.event("TLS_HANDSHAKE_FAILED", "a client without TLS on a TLS port", optional=True, client="plain"),
        contextlib.suppress(EOFError, OSError),
        Raw(RAW, scene.listeners[TLS], "plain") as client,
    ):
        client.ask("Metadata", 12, _NO_METADATA)
    time.sleep(2)
    _refuse(scene, "a client with TLS on a port without", None, CERTIFICATE, three)
    for _ in range(10):
        network.connect(RAW, scene.listeners[TLS]).close()
        scene.do("health check of the TLS port: connect and close")
        time.sleep(0.5)
    time.sleep(3)


def _refuse(scene: Scene, why: str, listener: str | None, authority: str, version: ssl.TLSVersion) -> None:
    """Begin a TLS handshake that fails."""
    target = scene.at() if listener is None else scene.listeners[listener]
    context = ssl.create_default_context(cafile=scene.folder / authority)
    context.minimum_version = context.maximum_version = version
    context.check_hostname = False
    connection = network.connect(RAW, target)
    client = "{}:{}".format(*connection.getsockname())
    who = {"client": client, "broker": "{}:{}".format(*target)}
    with (
        scene.event("TLS_HANDSHAKE_FAILED", f"{why}, {version.name}", optional=listener is None, **who),
        contextlib.suppress(OSError),
        context.wrap_socket(connection) as secured,
    ):
        secured.sendall(bytes(4))  # with TLS 1.3 a client learns here that it was refused
        secured.recv(1)
    connection.close()


# -- retries


def retries(scene: Scene) -> None:
    """Refused requests, again and again, without what the refusal asks for; and ones that do ask."""
    scene.make_topic(replicas=2, partitions=4)
    scene.make_topic("first", first=1)
    scene.usual()
    wrong = produce("first", 0, 10, now_ms=time.time_ns() // 1_000_000)
    missing = produce("first", 99, 10, now_ms=time.time_ns() // 1_000_000)
    join = {
        **{"group_id": "joiners", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": ""},
        **{"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": bytes(6) + b"\xff" * 4}]},
    }
    storm = {"topics": [{"name": "nothing"}], "allow_auto_topic_creation": False}
    _repeat(scene, "produces to a broker that does not lead", "no-metadata", "Produce", 9, wrong, 20)
    _repeat(scene, "produces to a partition that does not exist", "no-partition", "Produce", 9, missing, 20)
    _repeat(
        scene,
        "does not use the member id of the answer",
        "no-member-id",
        "JoinGroup",
        5,
        join,
        12,
        to=_coordinator(scene, "joiners"),
    )
    _repeat(scene, "asks for metadata without a pause", "storm", "Metadata", 9, storm, 300, pause=0)
    coordinator = _coordinator(scene, "lookers")
    beat = {"group_id": "lookers", "generation_id": 1, "member_id": "m"}
    _repeat(scene, "asks a broker that does not coordinate", "no-lookup", "Heartbeat", 4, beat, 12, to=1 - coordinator)
    # what is not one
    with scene.raw(RAW, 1, "asks-metadata") as client:
        for _ in range(12):
            client.ask("Produce", 9, wrong)
            client.ask("Metadata", 9, {"topics": [{"name": "first"}], "allow_auto_topic_creation": False})
            time.sleep(0.1)
    with scene.raw(RAW, 1, "four-times") as client:
        for _ in range(4):
            client.ask("Produce", 9, wrong)
            time.sleep(0.05)
    with scene.raw(RAW, 1, "pipelined") as client:
        for _ in range(8):
            client.send("Produce", 9, wrong)
        for _ in range(8):
            client.answer("Produce", 9)
    with scene.raw(RAW, coordinator, "pauses") as client:
        for _ in range(25):
            client.ask("Metadata", 9, storm)
            time.sleep(0.1)
    scene.do("clients that do as they are told have ended")
    time.sleep(5)


def _repeat(
    scene: Scene,
    by: str,
    name: str,
    api: str,
    version: int,
    body: Mapping[str, Any],
    times: int,
    *,
    pause: float = 0.05,
    to: int = 1,
) -> None:
    time.sleep(3)
    with (
        scene.raw(RAW, to, name) as client,
        scene.event("RETRY_WITHOUT_REMEDY", by, client=name, broker=scene.name(to)),
    ):
        for _ in range(times):
            answer = client.ask(api, version, body)
            time.sleep(pause)
    scene.do(f"the last answer to {name}: {answer}")


def _coordinator(scene: Scene, group: str) -> int:
    """Return which broker coordinates a group."""
    with scene.raw(RAW) as client:
        while True:
            answer = client.ask("FindCoordinator", 3, {"key": group, "key_type": 0})
            if answer["error_code"] == 0:
                return int(answer["node_id"]) - 1
            time.sleep(0.2)


def closed(scene: Scene) -> None:
    """A broker closes instead of an answer: to a version that it does not have, and after a failed append (acks=0)."""
    scene.make_topic()
    scene.usual()
    time.sleep(5)

    def unknown_version(client: Raw) -> None:
        client.send_bytes(3, 99, bytes(8), flexible=True)
        client.answer("Metadata", 12)

    def failed_append(client: Raw) -> None:
        client.send("Produce", 9, produce(TOPIC, 99, 10, acks=0, now_ms=time.time_ns() // 1_000_000))
        client.answer("Produce", 9)

    tries: tuple[tuple[str, str, Callable[[Raw], None]], ...] = (
        ("Metadata 99", "future", unknown_version),
        ("Produce with acks=0 to a missing partition", "no-acks", failed_append),
    )
    for by, name, send in tries:
        with scene.event("CLOSED_INSTEAD_OF_ANSWER", by, client=name, broker=scene.name()):
            for _ in range(4):
                with contextlib.suppress(EOFError, ConnectionError), scene.raw(RAW, name=name) as client:
                    client.ask("Metadata", 12, _NO_METADATA)
                    send(client)
                time.sleep(0.3)
        time.sleep(4)


# -- addresses


def unreachable(scene: Scene) -> None:
    """Listeners whose advertised addresses nobody can reach: one that does not answer, one that refuses."""
    scene.make_topic()
    scene.usual()
    for name, advertised in ((BLACKHOLE, NOWHERE), (REFUSED, CLOSED)):
        time.sleep(4)
        with Raw(RAW, scene.listeners[name], f"raw-{name.lower()}") as client:
            (broker,) = client.ask("Metadata", 12, _NO_METADATA)["brokers"]
        assert (broker["host"], broker["port"]) == advertised, broker
        with scene.event(
            "ENDPOINT_UNREACHABLE", f"the advertised address of listener {name}", broker="{}:{}".format(*advertised)
        ):
            for _ in range(4):
                with contextlib.suppress(OSError):
                    network.connect(RAW, advertised, seconds=2)
                time.sleep(0.5)
    settings = {
        "bootstrap.servers": "{}:{}".format(*scene.listeners[BLACKHOLE]),
        "socket.connection.setup.timeout.ms": 3000,
    }
    with scene.event(
        "ENDPOINT_UNREACHABLE",
        "a Java producer behind listener BLACKHOLE (it begins some seconds after its start)",
        optional=True,
        broker="{}:{}".format(*NOWHERE),
    ):
        scene.run(15, f"producer:p9:{TOPIC}:5:100:1", settings=settings)
        time.sleep(25)


# -- connections


def idle_lost(scene: Scene) -> None:
    """The way forgets two connections that were idle: packets of one are lost, those of the other one refused."""
    scene.make_topic()
    scene.usual()
    with scene.raw(RAW, name="idle-lost") as lost, scene.raw(RAW, name="idle-reset") as reset:
        for client in (lost, reset):
            client.ask("Metadata", 12, _NO_METADATA)
        scene.do("two connections are idle from now on")
        time.sleep(65)
        for client, by, lose in ((lost, "dropped", network.ignore), (reset, "answered with RST", network.forget)):
            lose(RAW, int(client.client.rpartition(":")[2]))
            who = {"client": client.client, "broker": scene.name()}
            with scene.event("IDLE_CONNECTION_LOST", f"packets of an idle connection are {by}", **who):
                client.socket.settimeout(10)
                with contextlib.suppress(OSError):
                    client.ask("Metadata", 12, _NO_METADATA)
    time.sleep(3)


def not_reading(scene: Scene) -> None:
    """Clients do not read for twelve seconds: a raw one with a large answer, Java ones that are stopped."""
    scene.make_topic()
    scene.make_topic("large", partitions=1)
    members, *_ = scene.usual()
    reader = scene.run(
        RAW, "consumer:c9:gl:large", settings={"receive.buffer.bytes": 32_768, "fetch.max.wait.ms": 10_000}
    )
    scene.run(15, "producer:p9:large:0.5:300000:1").await_ready()
    reader.await_ready()
    time.sleep(5)
    fetch = {
        **{"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 2 << 20, "session_epoch": -1},
        "topics": [{"topic": "large", "partitions": [_fetched(0)]}],
    }
    with scene.raw(RAW, name="raw-reader", receive_buffer=32_768) as client:
        client.send("Fetch", 12, fetch)
        with scene.event("CLIENT_NOT_READING", "a raw client does not read", client=client.client):
            time.sleep(12)
        client.answer("Fetch", 12)
    time.sleep(5)
    for application, name, optional in ((reader, "c9", False), (members, "s1", True)):
        with scene.event("CLIENT_NOT_READING", "SIGSTOP of the client", client=name, optional=optional):
            stop(application.process.send_signal, 12)
        time.sleep(8)


def _fetched(partition: int) -> dict[str, Any]:
    return {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 2 << 20}


def overdue(scene: Scene) -> None:
    """The controller is stopped for 34 s: another broker lives, and cannot answer CreateTopics."""
    scene.make_topic("second", first=2)
    scene.run(11, "producer:p1:second:10:100:all", "producer:p2:second:10:100:1", "admin:a1").await_ready()
    with scene.raw(RAW, 1, "creator") as client:
        client.ask("Metadata", 12, _NO_METADATA)
        time.sleep(5)
        asked = {"topics": [{"name": "never", "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 1000}
        scene.brokers[0].signal(signal.SIGSTOP)
        start = time.time_ns()
        scene.do("SIGSTOP of the controller")
        client.send("CreateTopics", 7, asked)
        with scene.event(
            "REQUEST_OVERDUE", "CreateTopics with a timeout of 1 s", client="creator", broker=scene.name(1)
        ):
            time.sleep(34)
            scene.brokers[0].signal(signal.SIGCONT)
            scene.happened("BROKER_SILENT", start, time.time_ns(), "SIGSTOP", optional=True, broker=scene.name(0))
            answer = client.answer("CreateTopics", 7)
        scene.do(f"answered: {answer}")
    time.sleep(10)

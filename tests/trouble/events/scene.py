"""What a case needs: brokers, clients on hosts of their own, captures, and the log of what is done and when."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from kshark_spark.java import find_java
from tests.broker.releases import Release
from tests.broker.server import Broker, NoBroker, free_ports, jars
from tests.trouble.events import network
from tests.trouble.events.network import HOSTS, address, on_host
from tests.trouble.events.raw import Raw, sasl
from tests.trouble.events.truth import Truth
from tests.trouble.security import ADMINISTRATOR, PASSWORD, Security

SETTINGS: Final = {
    "group.share.max.share.sessions": 2000,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
}
TOPIC: Final = "orders"
_APPLICATION: Final = Path(__file__).parent / "Application.java"
_JVM: Final = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true")
_READY_SECONDS: Final = 60
_PROBE_SECONDS: Final = 0.01
_MS: Final = 1_000_000


#: An address and a port.
Target = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Listener:
    """A further listener of a broker: its protocol, and what it advertises, if not where it listens."""

    protocol: str
    advertised: Target | None = None


class Application:
    """A process with Java clients; see Application.java for what they are."""

    def __init__(self, process: subprocess.Popen[str], log: Path, names: Collection[str]) -> None:
        self.process, self._log, self._names = process, log, names

    def await_ready(self) -> None:
        """Wait until each client had a success."""
        until = time.monotonic() + _READY_SECONDS
        while time.monotonic() < until:
            ready = {line.removeprefix("ready ") for line in self._log.read_text().splitlines()}
            if ready.issuperset(self._names):
                return
            time.sleep(0.05)
        raise NoBroker(f"a client had no success in {_READY_SECONDS} s; see {self._log}")

    def tell(self, command: str) -> None:
        """Send a command: "pause c1", "resume c1"."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Close its clients and wait for that."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Scene:
    """The brokers of a case with their clients. `truth.jsonl` and `actions.jsonl` in `folder` are its log."""

    def __init__(
        self, release: Release, brokers: list[Broker], folder: Path, security: Security, listeners: Mapping[str, Target]
    ) -> None:
        self.release, self.brokers, self.folder, self.security = release, brokers, folder, security
        self.listeners: Final = listeners
        java = find_java()
        assert java is not None, "brokers need it, too"
        self._java = str(java.home / "bin/java")
        self._classes = self._compiled()
        self._applications: list[Application] = []
        self._numbers = itertools.count(1)
        self._truth: IO[str] = (folder / "truth.jsonl").open("w")
        self._actions: IO[str] = (folder / "actions.jsonl").open("w")

    # -- the log

    def do(self, what: str) -> None:
        """Write down what happens now."""
        self._actions.write(json.dumps({"time_ns": time.time_ns(), "what": what}) + "\n")
        self._actions.flush()

    def happened(
        self, event: str, from_ns: int, to_ns: int | None, by: str, *, optional: bool = False, **who: str
    ) -> None:
        """Write down an event."""
        self._truth.write(Truth(event, from_ns, to_ns, who, by, optional).line())
        self._truth.flush()

    @contextlib.contextmanager
    def event(self, event: str, by: str, *, optional: bool = False, **who: str) -> Iterator[None]:
        """Write down an event that lasts as long as the context."""
        self.do(f"{by}: begins")
        start = time.time_ns()
        try:
            yield
        finally:
            self.happened(event, start, time.time_ns(), by, optional=optional, **who)
            self.do(f"{by}: ends")

    # -- brokers

    def at(self, broker: int = 0) -> tuple[str, int]:
        """Return address and port of a broker, by its place in the cluster."""
        return address(broker + 1), self.brokers[broker].port

    def name(self, broker: int = 0) -> str:
        return "{}:{}".format(*self.at(broker))

    def silence(self, seconds: float, broker: int = 0, *, optional: bool = False) -> None:
        """Stop a broker's process and let it go on."""
        with self.event(
            "BROKER_SILENT", f"SIGSTOP of a broker, {seconds} s", broker=self.name(broker), optional=optional
        ):
            stop(self.brokers[broker].signal, seconds)

    def restart(self, broker: int, *, kill: bool, down_seconds: float) -> None:
        """End a broker and start it again: it is down while it accepts no connections.

        A killed process closes its sockets up to 0.3 s after the signal.
        """
        by = "SIGKILL" if kill else "SIGTERM (controlled shutdown)"
        with Watch(self.at(broker)) as watch:
            self.do(f"{by} of broker {self.name(broker)}")
            begin = time.time_ns()
            self.brokers[broker].stop(kill=kill)
            self.do("its process has ended")
            time.sleep(down_seconds)
            self.do("start of the broker")
            self.brokers[broker].start()
        closed = watch.first(accepts=False, after_ns=begin)
        opened = watch.first(accepts=True, after_ns=closed)
        self.happened("BROKER_DOWN", closed, opened, by, broker=self.name(broker))
        self.do("the broker says that it is started")

    def answers(self, broker: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield what a broker's own request log holds: the time of each answer in ns, and the line."""
        for row in self.brokers[broker].requests():
            yield row["logged_ms"] * _MS, row

    # -- clients

    def raw(self, host: int = HOSTS[0], broker: int = 0, name: str = "raw", **more: int) -> Raw:
        return Raw(host, self.at(broker), name, **more)

    def make_topic(self, topic: str = TOPIC, partitions: int = 2, replicas: int = 1, first: int | None = None) -> None:
        """Create a topic; `first`: the node that has all partitions."""
        placed: dict[str, Any] = {"num_partitions": partitions, "replication_factor": replicas}
        if first is not None:
            assignments = [{"partition_index": number, "broker_ids": [first]} for number in range(partitions)]
            placed = {"num_partitions": -1, "replication_factor": -1, "assignments": assignments}
        with self.raw(name="admin") as admin:
            if self.security.knows_clients:
                sasl(admin, ADMINISTRATOR, PASSWORD)
            asked = {"topics": [{"name": topic, **placed}], "timeout_ms": 10_000}
            answer = admin.ask("CreateTopics", 7, asked)
        assert answer["topics"][0]["error_code"] == 0, answer
        time.sleep(0.5)

    def run(self, host: int, *clients: str, settings: Mapping[str, object] | None = None) -> Application:
        """Start Java clients on a host."""
        number = next(self._numbers)
        file, log = self.folder / f"application-{number}.properties", self.folder / f"application-{number}.log"
        common = {"bootstrap.servers": ",".join(map(self.name, range(len(self.brokers)))), **(settings or {})}
        file.write_text("".join(f"{key}={value}\n" for key, value in common.items()))
        path = f"{self._classes}:{jars(self.release)}/*"
        names = self.folder / "hosts"  # clients with SASL look for the broker's name; no name server is reachable
        names.write_text("".join(f"{address(number)} host-{number}\n" for number in (1, 2, *HOSTS)))
        command = (self._java, *_JVM, f"-Djdk.net.hosts.file={names}", "-cp", path, "Application", str(file), *clients)
        self.do(f"start of {' '.join(clients)} on {address(host)}")
        with log.open("wb") as output:
            process = subprocess.Popen(
                on_host(host, command), stdin=subprocess.PIPE, stdout=output, stderr=output, text=True
            )
        application = Application(process, log, [client.split(":")[1] for client in clients])
        self._applications.append(application)
        return application

    def usual(self, topic: str = TOPIC, settings: Mapping[str, object] | None = None) -> list[Application]:
        """Start some clients of each kind on three hosts, and wait until they work."""
        applications = [
            self.run(12, f"share:s1:ga:{topic}", f"share:s2:ga:{topic}", settings=settings),
            self.run(
                13, f"share:s3:gb:{topic}", f"consumer:c1:gc:{topic}", f"classic:c2:gd:{topic}", settings=settings
            ),
            self.run(
                11, f"producer:p1:{topic}:10:100:all", f"producer:p2:{topic}:10:100:1", "admin:a1", settings=settings
            ),
        ]
        for application in applications:
            application.await_ready()
        self.do("all clients work")
        return applications

    def end(self) -> None:
        """Close all clients, those that read first."""
        self.do("end of all clients")
        for application in self._applications:
            if application.process.poll() is None:
                application.end()
        self.do("all clients are closed")

    def kill(self) -> None:
        """End what is left."""
        for application in self._applications:
            application.process.kill()
            application.process.wait()
        self._truth.close()
        self._actions.close()

    def _compiled(self) -> Path:
        """Compile the clients; return the folder of their classes."""
        folder = self.folder / "classes"
        client = jars(self.release) / f"kafka-clients-{self.release.version}.jar"
        compiler = (self._java, "--module", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn")
        done = subprocess.run(
            (*compiler, "-d", str(folder), "-cp", str(client), str(_APPLICATION)), capture_output=True, text=True
        )
        if done.returncode:
            raise NoBroker(f"the Java clients cannot be compiled (it takes a JDK): {done.stderr.strip()}")
        return folder


def stop(send_signal: Callable[[int], None], seconds: float) -> None:
    """Stop a process and let it go on."""
    send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    send_signal(signal.SIGCONT)


@dataclass(frozen=True)
class Case:
    """`run` lets something happen in a scene; `brokers`, `settings`, `security`, `listeners`: those of the cluster.

    `files`: make files in the case's folder, and settings of brokers that name them. `hosts_too`: record at clients,
    too. `allowed`: events that may be reported besides those in the log, as what follows from them.
    """

    run: Callable[[Scene], None]
    brokers: int = 1
    settings: Mapping[str, object] = field(default_factory=dict)
    security: Security = field(default_factory=Security)
    listeners: Mapping[str, Listener] = field(default_factory=dict)
    files: Callable[[Path], Mapping[str, object]] = lambda folder: {}
    hosts_too: bool = False
    allowed: frozenset[str] = frozenset()


class Watch(threading.Thread):
    """Asks again and again whether somebody accepts connections at an address, and notes each change."""

    def __init__(self, target: tuple[str, int]) -> None:
        super().__init__()
        self._target, self._ends = target, threading.Event()
        self.changes: list[tuple[int, bool]] = []

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self.join()

    def run(self) -> None:
        while not self._ends.is_set():
            now, accepts = time.time_ns(), network.is_open(self._target)
            if not self.changes or self.changes[-1][1] != accepts:
                self.changes.append((now, accepts))
            self._ends.wait(_PROBE_SECONDS)

    def first(self, *, accepts: bool, after_ns: int) -> int:
        """Return when it first did, or did not, after a time."""
        return next(time_ns for time_ns, so in self.changes if so is accepts and time_ns >= after_ns)


def listening(broker: Broker, further: Mapping[str, Listener]) -> tuple[dict[str, Target], str]:
    """Return where the further listeners of a broker are, and the lines of its configuration that make them."""
    host = address(broker.node_id)
    targets = {name: (host, port) for name, port in zip(further, free_ports(len(further)), strict=True)}
    own = (f"PLAINTEXT://0.0.0.0:{broker.port}", f"CONTROLLER://127.0.0.1:{broker.controller_port}")
    more = [f"{name}://0.0.0.0:{port}" for name, (_, port) in targets.items()]
    advertised = [f"PLAINTEXT://{host}:{broker.port}"]
    for name, listener in further.items():
        advertised.append("{}://{}:{}".format(name, *(listener.advertised or targets[name])))
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    protocols |= {name: listener.protocol for name, listener in further.items()}
    lines = (
        f"listeners={','.join((*own, *more))}",
        f"advertised.listeners={','.join(advertised)}",
        f"listener.security.protocol.map={','.join(f'{name}:{protocol}' for name, protocol in protocols.items())}",
    )
    return targets, "".join(f"{line}\n" for line in lines)


@contextlib.contextmanager
def scene(release: Release, folder: Path, case: Case) -> Iterator[Scene]:
    """Provide brokers, hosts and captures. Raises NoBroker.

    The captures are `brokers.pcap`, and `client-11.pcap` and so on.
    """
    homes = [folder / f"broker-{number}" for number in range(1, case.brokers + 1)]
    for home in homes:
        home.mkdir(parents=True)
    settings = {**SETTINGS, **case.settings, **case.security.brokers, **case.files(folder)}
    with contextlib.ExitStack() as stack:
        stack.enter_context(network.network(case.brokers))
        started: list[Broker] = []
        listeners: dict[str, Target] = {}
        for number, home in enumerate(homes, 1):
            of = started[0] if started else None
            broker = Broker(release, home, settings, of=of, node_id=number, advertised=address(number))
            if case.listeners:
                listeners, lines = listening(broker, case.listeners)
                with (home / "broker.properties").open("a") as properties:
                    properties.write(lines)
            started.append(stack.enter_context(broker))
        there = Scene(release, started, folder, case.security, listeners)
        stack.callback(there.kill)
        stack.enter_context(network.recorded(network.BRIDGE, folder / "brokers.pcap"))
        for host in HOSTS if case.hosts_too else ():
            stack.enter_context(network.recorded(network.port(host), folder / f"client-{host}.pcap"))
        yield there
        there.end()
        time.sleep(1)

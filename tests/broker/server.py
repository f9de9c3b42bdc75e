"""A real broker on free loopback ports, in a temporary folder: one node, formatted, started, stopped and started again.

Needs Java 17 and, until the jars of a release are in the cache folder, Maven and a repository.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kshark_spark.java import find_java
from tests.broker.releases import Release

HERE: Final = Path(__file__).parent
#: Small and quick to start: a walk keeps nothing for long.
JVM: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true")
LOOPBACK: Final = "127.0.0.1"
DOWNLOAD_SECONDS: Final = 60
START_SECONDS: Final = 90
STOP_SECONDS: Final = 30


class NoBroker(Exception):
    """There can be no broker here; the text says why and what helps."""


def jars(release: Release) -> Path:
    """The folder with the release's jars, fetched by Maven the first time. Raises NoBroker where that cannot be."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kshark" / "broker"
    folder = root / release.version
    if _complete(folder, release):
        return folder
    shutil.rmtree(folder, ignore_errors=True)  # fetched before the tools were needed, too
    maven = shutil.which("mvn")
    if maven is None:
        raise NoBroker(
            f"the jars of Kafka {release.version} are fetched by Maven, and there is no mvn (Debian: apt-get install "
            f"maven)"
        )
    partial = root / f"{release.version}.{os.getpid()}.partial"
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={partial}", f"-Drelease={release.version}")
    try:
        subprocess.run(
            (maven, "-q", "-B", "-f", str(HERE / "pom.xml"), *goal),
            check=True,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_SECONDS,
        )
        try:
            partial.rename(folder)
        except OSError:
            if not _complete(folder, release):  # otherwise another process fetched them meanwhile
                raise
    except subprocess.TimeoutExpired:
        raise NoBroker(
            f"Maven did not fetch Kafka {release.version} within {DOWNLOAD_SECONDS} s; try again: make test-broker"
        ) from None
    except subprocess.CalledProcessError as error:
        said = (error.stdout or error.stderr).strip().splitlines()
        raise NoBroker(
            f"Maven could not fetch Kafka {release.version}: {said[0] if said else 'it does not say why'}"
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _complete(folder: Path, release: Release) -> bool:
    return (folder / f"kafka-tools-{release.version}.jar").exists()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Broker:
    """A broker of one release; `settings` go into its configuration. Use it as a context; `port` is where clients
    connect.

    `of` is another one: then it is a broker of that one's cluster, which has the controller, and `node_id` its number.
    `advertised`, `advertised_port`: where clients find it, if not on its own port of loopback.
    """

    def __init__(
        self,
        release: Release,
        folder: Path,
        settings: Mapping[str, object] | None = None,
        *,
        of: Broker | None = None,
        node_id: int = 1,
        advertised: str = LOOPBACK,
        advertised_port: int | None = None,
    ) -> None:
        java = find_java()
        if java is None:
            raise NoBroker(
                "brokers need Java 17 or newer; install one (Debian: apt-get install default-jre-headless) or set "
                "JAVA_HOME"
            )
        self.release, self.folder, self.node_id = release, folder, node_id
        self.port, self.controller_port = free_ports(2)
        self._advertised = f"{advertised}:{advertised_port or self.port}"
        self._host = LOOPBACK if advertised == LOOPBACK else "0.0.0.0"
        self.cluster_id: str = (
            of.cluster_id if of is not None else base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        )
        if of is not None:
            self.controller_port = of.controller_port
        self._java = (str(java.home / "bin/java"), *JVM, "-cp", f"{jars(release)}/*")
        self._process: subprocess.Popen[bytes] | None = None
        self._configure(settings or {}, controls=of is None)

    def _configure(self, settings: Mapping[str, object], *, controls: bool) -> None:
        controller = f"127.0.0.1:{self.controller_port}"
        known: dict[str, object] = {
            "node.id": self.node_id,
            "process.roles": "broker,controller" if controls else "broker",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self._host}:{self.port}" + (f",CONTROLLER://{controller}" if controls else ""),
            "advertised.listeners": f"PLAINTEXT://{self._advertised}",
            "log.dirs": self.folder / "data",
            **settings,
        }
        text = (HERE / "broker.properties").read_text() + "".join(f"{name}={value}\n" for name, value in known.items())
        (self.folder / "broker.properties").write_text(text)

    def __enter__(self) -> Broker:
        tool = (
            "kafka.tools.StorageTool",
            "format",
            f"--cluster-id={self.cluster_id}",
            "-c",
            "broker.properties",
            *self.release.format,
        )
        done = subprocess.run((*self._java, *tool), cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise NoBroker(
                f"Kafka {self.release.version} cannot format its storage: {done.stderr.strip() or done.stdout.strip()}"
            )
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(kill=True)

    def start(self) -> None:
        """Starts it and waits until it answers on its port."""
        logging = (f"-Dlog4j2.configurationFile={HERE / 'log4j2.yaml'}", f"-Dkafka.logs.dir={self.folder}")
        command = (*self._java[:-2], *logging, *self._java[-2:], "kafka.Kafka", "broker.properties")
        log = self.folder / "server.log"
        before = log.stat().st_size if log.exists() else 0
        with (self.folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=output, stderr=subprocess.STDOUT)
        until = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < until:
            if log.exists() and b"Kafka Server started" in log.read_bytes()[before:]:
                return
            time.sleep(0.1)
        self.stop(kill=True)
        raise NoBroker(f"Kafka {self.release.version} did not start; see {log}")

    def signal(self, number: int) -> None:
        """Sends its process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self, *, kill: bool = False) -> None:
        """Ends it, in good order or at once."""
        if self._process is None:
            return
        (self._process.kill if kill else self._process.terminate)()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def requests(self) -> Iterator[dict[str, Any]]:
        """What the broker's request log holds: each request with its response, `logged_ms` in front."""
        with (self.folder / "request.log").open(encoding="utf-8") as lines:
            for line in lines:
                logged_ms, _, text = line.partition(" ")
                start = text.find("{")
                if start >= 0:
                    yield {"logged_ms": int(logged_ms), **json.loads(text[start:])}

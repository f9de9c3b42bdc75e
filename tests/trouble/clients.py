"""Kafka's own tools, and clients of librdkafka, as clients: processes that are started, stopped and gone on with."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tests.broker.releases import Release
from tests.broker.server import jars
from tests.trouble.security import ADMINISTRATOR, CLIENT, Security


class Tool(NamedTuple):
    """A program of Kafka: its class, and the option for a file of settings, whose name differs by tool and release."""

    name: str
    settings: str = "--command-config"


#: The producers write to the first alone, or to all of them.
TOPICS: Final = ("t", "u")
GROUPS: Final = ("ga", "gb")
#: The first has more members than the second.
_SHARE_GROUPS: Final = ("ga", "ga", "gb")
#: The group of other consumers, by the protocol that they speak; one in a while asks for a share group's.
_OTHER_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "classic": ("gc", "gc", "gc", "ga"),
    "consumer": ("gd", "gd", "gd", "gb"),
}
_JVM: Final = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PRODUCER: Final = Tool("org.apache.kafka.tools.VerifiableProducer", "--producer.config")
_SHARE_CONSUMER: Final = Tool("org.apache.kafka.tools.VerifiableShareConsumer")
_CONSOLE: Final = Tool("org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--consumer-config")
_CONSUMER: Final = Tool("org.apache.kafka.tools.VerifiableConsumer", "--consumer.config")
_CONSUMERS: Final = 8
#: Seconds that a tool may take which does one thing.
_ONCE_SECONDS: Final = 90
#: How consumers acknowledge: implicitly, or explicitly in one of several ways; those of the console release or reject
#: everything.
_MODES: Final = (
    *("auto", "own explicit", "implicit", "sync", "own implicit", "classic", "async", "explicit", "own explicit"),
    *("consumer", "--release", "--reject"),
)
#: How much a share consumer asks for and how patient it is; how many records it acquires is in its hands since 4.2
#: (KIP-1206). Some give up a request before the broker would answer it.
_ACQUIRES: Final[dict[str, tuple[object, ...]]] = {
    "max.poll.records": (5, 50, 500),
    "share.acquire.mode": ("batch_optimized", "record_limit"),
    "fetch.max.wait.ms": (500, 500, 50, 4000),
    "fetch.min.bytes": (1, 1, 3000),
    "fetch.max.bytes": (52_428_800, 52_428_800, 1, 2000),
    "request.timeout.ms": (30_000, 30_000, 1500),
    "connections.max.idle.ms": (540_000, 540_000, 2000),
    "metadata.max.age.ms": (300_000, 1000),
}
_OF_LIBRDKAFKA: Final = frozenset({"implicit", "explicit"})
#: A consumer of our own on Kafka's client, for what no tool does.
_OWN: Final = Path(__file__).parent / "Consumer.java"


class Clients:
    """Two producers, one with transactions, consumers of two share groups and of others; everything they write goes
    into `folder`.

    `release`: that of the tools, which need not be the brokers'.
    """

    def __init__(
        self, java: Path, release: Release, bootstrap: str, security: Security, folder: Path, random: Random
    ) -> None:
        self.release: Final = release
        self._java = (str(java), *_JVM, "-cp", f"{jars(release)}/*")
        self._bootstrap, self._security, self._folder, self._random = bootstrap, security, folder, random
        self._numbers = itertools.count()
        self._consumers: dict[str, subprocess.Popen[bytes]] = {}
        self._producers: list[subprocess.Popen[bytes]] = []
        self._of_librdkafka = folder / "librdkafka.json"

    def start(self) -> None:
        self._of_librdkafka.write_text(
            json.dumps({"bootstrap.servers": self._bootstrap, **self._security.of_librdkafka})
        )
        keys = ("--throughput", "60", "--repeating-keys", "20")
        self._producers = [self._start("producer", _PRODUCER, *keys), self._python("transactions", "transactions")]
        self.fill()

    def fill(self) -> None:
        """New consumers for those that are gone."""
        while len(self.running()) < _CONSUMERS:
            self._consume(next(self._numbers))

    def running(self) -> list[subprocess.Popen[bytes]]:
        """Consumers that have not ended, in the order in which they came."""
        return [one for one in self._consumers.values() if one.poll() is None]

    def once(self, tool: Tool, *arguments: str) -> None:
        """A tool of Kafka that does one thing and ends; what it says is in tools.log."""
        settings = self._settings_file(ADMINISTRATOR, self._security.of_java[ADMINISTRATOR])
        where = ("--bootstrap-server", self._bootstrap, tool.settings, str(settings))
        process = self._run("tools", *self._java, tool.name, *where, *arguments)
        try:
            process.wait(_ONCE_SECONDS)
        finally:
            process.kill()

    def end(self, *, consumers_only: bool = False) -> None:
        """In good order; a process that was stopped goes on for that."""
        for process in self._all(consumers_only=consumers_only):
            process.send_signal(signal.SIGCONT)
            process.terminate()

    def kill(self) -> None:
        for process in self._all():
            process.kill()
            process.wait()

    def _all(self, *, consumers_only: bool = False) -> Iterator[subprocess.Popen[bytes]]:
        yield from self.running()
        if not consumers_only:
            yield from self._producers

    def _consume(self, number: int) -> None:
        name, mode = f"c{number}", _MODES[number % len(_MODES)]
        group = self._random.choice(_OTHER_GROUPS.get(mode, _SHARE_GROUPS))
        if mode in _OTHER_GROUPS:
            static = self._random.choice(((), ("--group-instance-id", f"static-{mode}")))
            process = self._start(name, _CONSUMER, "--group-id", group, "--group-protocol", mode, *static)
        elif mode in _OF_LIBRDKAFKA:
            process = self._python(name, "librdkafka", group, name, mode)
        elif mode.startswith("own "):
            settings = {
                "bootstrap.servers": self._bootstrap,
                "group.id": group,
                "share.acknowledgement.mode": mode.removeprefix("own "),
            }
            process = self._run(
                name, *self._java, str(_OWN), str(self._settings(name, {**settings, **self._acquires()})), *TOPICS
            )
        elif mode.startswith("--"):
            process = self._start(name, _CONSOLE, "--group", group, mode, settings=self._acquires())
        else:
            more = ("--group-id", group, "--acknowledgement-mode", mode, "--offset-reset-strategy", "earliest")
            process = self._start(name, _SHARE_CONSUMER, *more, settings=self._acquires())
        self._consumers[name] = process

    def _acquires(self) -> dict[str, object]:
        """Settings of a share consumer."""
        return {name: self._random.choice(values) for name, values in _ACQUIRES.items()}

    def _start(
        self, name: str, tool: Tool, *arguments: str, settings: Mapping[str, object] | None = None
    ) -> subprocess.Popen[bytes]:
        file = self._settings(name, settings or {})
        where = ("--bootstrap-server", self._bootstrap, "--topic", TOPICS[0], tool.settings, str(file))
        return self._run(name, *self._java, tool.name, *where, *arguments)

    def _settings(self, name: str, settings: Mapping[str, object]) -> Path:
        return self._settings_file(name, {"client.id": name, **self._security.of_java[CLIENT], **settings})

    def _settings_file(self, name: str, settings: Mapping[str, object]) -> Path:
        file = self._folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return file

    def _python(self, name: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """A client of librdkafka."""
        return self._run(
            name, sys.executable, "-m", f"tests.trouble.{program}", str(self._of_librdkafka), *arguments, *TOPICS
        )

    def _run(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

"""Kafka's own tools, and clients of librdkafka, as clients: processes that are started, stopped and gone on with."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Final

#: The producers write to the first alone, or to all of them.
TOPICS: Final = ("t", "u")
GROUPS: Final = ("ga", "gb")
_JVM: Final = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_TOOLS: Final = "org.apache.kafka.tools"
_CONSUMERS: Final = 6
#: Seconds that a tool may take which does one thing.
_ONCE_SECONDS: Final = 90
#: How consumers acknowledge: implicitly, or explicitly in one of several ways; those of the console release or reject everything.
_MODES: Final = ("auto", "own explicit", "implicit", "sync", "own implicit", "async", "explicit", "own explicit", "--release", "--reject")
_OF_LIBRDKAFKA: Final = frozenset({"implicit", "explicit"})
#: A consumer of our own on Kafka's client, for what no tool does.
_OWN: Final = Path(__file__).parent / "Consumer.java"


class Clients:
    """Two producers, one with transactions, and share consumers of two groups; everything they write goes into `folder`."""

    def __init__(self, java: Path, jars: Path, bootstrap: str, folder: Path, random: Random) -> None:
        self._java = (str(java), *_JVM, "-cp", f"{jars}/*")
        self._bootstrap, self._folder, self._random = bootstrap, folder, random
        self._numbers = itertools.count()
        self._consumers: dict[str, subprocess.Popen[bytes]] = {}
        self._producers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        keys = ("--throughput", "60", "--repeating-keys", "20")
        self._producers = [
            self._start("producer", f"{_TOOLS}.VerifiableProducer", *keys),
            self._run("transactions", sys.executable, "-m", "tests.trouble.transactions", self._bootstrap, *TOPICS),
        ]
        self.fill()

    def fill(self) -> None:
        """New consumers for those that are gone."""
        while len(self.running()) < _CONSUMERS:
            self._consume(next(self._numbers))

    def running(self) -> list[subprocess.Popen[bytes]]:
        """Consumers that have not ended, in the order in which they came."""
        return [one for one in self._consumers.values() if one.poll() is None]

    def once(self, tool: str, *arguments: str) -> None:
        """A tool of Kafka that does one thing and ends; what it says is in tools.log."""
        process = self._run("tools", *self._java, tool, "--bootstrap-server", self._bootstrap, *arguments)
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
        name, group, mode = f"c{number}", GROUPS[number % 3 == 0], _MODES[number % len(_MODES)]
        if mode in _OF_LIBRDKAFKA:
            process = self._run(name, sys.executable, "-m", "tests.trouble.librdkafka", self._bootstrap, group, name, mode, *TOPICS)
        elif mode.startswith("own "):
            settings = {"bootstrap.servers": self._bootstrap, "group.id": group, "share.acknowledgement.mode": mode.removeprefix("own ")}
            properties = self._properties(name, {**settings, **self._settings()})
            process = self._run(name, *self._java, str(_OWN), str(properties), *TOPICS)
        elif mode.startswith("--"):
            process = self._start(name, f"{_TOOLS}.consumer.ConsoleShareConsumer", "--group", group, mode, settings=self._settings())
        else:
            more = ("--group-id", group, "--acknowledgement-mode", mode, "--offset-reset-strategy", "earliest")
            process = self._start(name, f"{_TOOLS}.VerifiableShareConsumer", *more, settings=self._settings())
        self._consumers[name] = process

    def _settings(self) -> dict[str, object]:
        """Of a Java consumer; how many records it acquires is in its hands since 4.2 (KIP-1206)."""
        acquire = self._random.choice(("batch_optimized", "record_limit"))
        return {"max.poll.records": self._random.choice((5, 50, 500)), "share.acquire.mode": acquire}

    def _start(self, name: str, tool: str, *arguments: str, settings: Mapping[str, object] | None = None) -> subprocess.Popen[bytes]:
        properties = self._properties(name, settings or {})
        where = ("--bootstrap-server", self._bootstrap, "--topic", TOPICS[0], "--command-config", str(properties))
        return self._run(name, *self._java, tool, *where, *arguments)

    def _properties(self, name: str, settings: Mapping[str, object]) -> Path:
        file = self._folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in {"client.id": name, **settings}.items()))
        return file

    def _run(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

"""Tests of Kafka clients with pytest: capture the packets of a test, and assert that the client keeps the rules.

    # conftest.py
    pytest_plugins = ["kshark.testing"]

    # test_consumer.py
    from kshark.testing import assert_conforms

    def test_consumer(kafka_capture):
        consume_some_records(client_id="billing")
        assert_conforms(kafka_capture, client="billing", require=["EPOCH_REPLAY"], complete=True)

`kafka_capture` runs tcpdump for the duration of the test; `@pytest.mark.kafka_capture(interface="lo", port=9092)` says
where, `@pytest.mark.kafka_capture(file="trace.pcap")` reads a file instead. `assert_conforms` also takes a path.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from kshark.analysis import OF_CLIENTS, ClientCoverage, Parties
from kshark.analysis.rules import BOOK
from kshark.endpoints import host_of
from kshark.errors import UsageError
from kshark.face import pages
from kshark.headlines import Headlines
from kshark.model import Finding
from kshark.output.baseline import Baseline, software_name
from kshark.output.catalogue import CODES
from kshark.pipeline import JUDGED
from kshark.registry import Registry
from kshark.run import Run
from kshark.units import counted, number, safe

#: How long tcpdump may take to start and to stop, and the time that the last packets take to reach it.
_START_S: Final = 10.0
_STOP_S: Final = 10.0
_LAST_PACKETS_S: Final = 0.2
_RIGHTS: Final = (
    "kafka_capture needs the right to capture: run as root, or sudo setcap cap_net_raw,cap_net_admin+ep "
    "$(command -v tcpdump)"
)


class Capture:
    """The packets of a test, in a file. `dropped`: packets that the kernel dropped, known after `stop`."""

    def __init__(self, path: Path, process: subprocess.Popen[bytes] | None = None) -> None:
        self.path: Final = path
        self.dropped = 0
        self._process = process

    def stop(self) -> Path:
        """End the capture, and return its file. A second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return self.path
        time.sleep(_LAST_PACKETS_S)
        process.send_signal(signal.SIGINT)
        try:
            _, notes = process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            _, notes = process.communicate()
        for line in notes.decode(errors="replace").splitlines():
            if line.endswith("dropped by kernel"):
                self.dropped = int(line.split()[0])
        return self.path


def capture(path: Path, interface: str = "any", port: int = 9092) -> Capture:
    """Start tcpdump on an interface for the traffic of a port. Raises OSError if it is missing or may not capture."""
    tcpdump = shutil.which("tcpdump")
    if tcpdump is None:
        raise FileNotFoundError("kafka_capture needs tcpdump, which is not installed")
    command = [tcpdump, "-i", interface, "-s", "0", "-U", "--immediate-mode", "-w", str(path), f"tcp port {port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = b""
    too_late = threading.Timer(_START_S, process.kill)
    too_late.start()
    try:
        for line in process.stderr:
            if b"listening on" in line:
                return Capture(path, process)
            said += line
    finally:
        too_late.cancel()
    process.wait()
    reason = said.decode(errors="replace").strip().rpartition("\n")[2].removeprefix("tcpdump: ")
    raise PermissionError(_RIGHTS if "permi" in reason else f"kafka_capture: tcpdump: {reason or 'it did not start'}")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", "kafka_capture(interface, port, file): where kafka_capture captures, or the file that it reads"
    )


@pytest.fixture
def kafka_capture(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Capture]:
    """Capture the Kafka traffic of the test; skip the test without the right to capture."""
    marker = request.node.get_closest_marker("kafka_capture")
    options = {} if marker is None else dict(marker.kwargs)
    file = options.pop("file", None)
    if file is not None:
        yield Capture(Path(file))
        return
    try:
        running = capture(tmp_path / "kafka.pcap", **options)
    except OSError as error:
        pytest.skip(str(error))
    try:
        yield running
    finally:
        running.stop()


def assert_conforms(
    capture: Capture | str | Path,
    *,
    client: str | None = None,
    require: str | Iterable[str] = (),
    baseline: str | Path | None = None,
    complete: bool = False,
) -> None:
    """Raise AssertionError if a client broke a rule, with what it did and what to do.

    `client`: a client id, or the name of its software, with or without version; None: all clients. `require`: codes of
    rules that it must have put to the test; "all": every rule about clients. `baseline`: a file of known findings
    (`kshark check --write-baseline`). `complete`: the capture holds all traffic of the client. Raises
    kshark.UnreadableInput for a file that is no capture, UsageError for an unknown code or a file that is no baseline.
    """
    __tracebackhide__ = True
    required, known = _codes(require), Baseline() if baseline is None else Baseline.read(Path(baseline))
    path = capture.stop() if isinstance(capture, Capture) else Path(capture)
    if complete and isinstance(capture, Capture) and capture.dropped:
        complete = False
        warnings.warn(
            f"the kernel dropped {counted(capture.dropped, 'packet')}: the capture is not complete", stacklevel=2
        )
    run = Run(Registry(), coverage=Parties(), named=True, complete=complete)
    for page in pages([path], JUDGED):
        run.page(page)
    run.close()
    if (why := run.observed.why_empty()) is not None:
        raise AssertionError(f"{path.name}: nothing could be judged: {why}")
    clients = [it for it in run.clients("client") if client is None or _is(client, it.name, it.software)]
    if not clients:
        seen = ", ".join(safe(it.name) for it in run.clients("client")) or "none"
        raise AssertionError(f"{path.name}: no request of client {client or '(any)'}; clients in it: {seen}")
    broken = [
        finding
        for finding in run.findings
        if finding.verdict == "violation" and finding.blame == "client" and not known.has(finding)
        if client is None or _is(client, finding.client_id or host_of(finding.client), finding.software)
    ]
    complaints = [*_broken(broken), *_untested(clients, required)]
    if complaints:
        raise AssertionError("\n".join([f"{client or 'a client'} does not conform ({path.name}):", *complaints]))


def _codes(require: str | Iterable[str]) -> list[str]:
    codes = [require] if isinstance(require, str) else [*require]
    if "all" in codes:
        return [rule.code for rule in BOOK.rules if rule.code in OF_CLIENTS]
    for code in codes:
        if code not in OF_CLIENTS:
            raise UsageError(f'require: no rule "{code}" about clients (kshark explain rules lists them)')
    return codes


def _is(client: str, name: str, software: str | None) -> bool:
    """True if a client has that id or software."""
    return client in (name, software, software and software_name(software))


def _broken(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield what the findings mean, then the first of each rule."""
    headlines, by_code = Headlines(), defaultdict[str, list[Finding]](list)
    for finding in findings:
        headlines.add(finding)
        by_code[finding.code].append(finding)
    for headline in headlines.of():
        yield f"  {safe(headline.text)}"
        yield from [f"    → {headline.advice}"] if headline.advice else []
    for code, alike in by_code.items():
        times = f" ×{number(len(alike))}" if len(alike) > 1 else ""
        yield f"  {code}{times}: {CODES[code].text}"
        yield f"    {safe(alike[0].argument)}"


def _untested(clients: Sequence[ClientCoverage], required: Sequence[str]) -> Iterator[str]:
    """Yield which required rules no client tested."""
    tested = {rule.code for client in clients for rule in client.rules if rule.tested}
    missing = [code for code in required if code not in tested]
    if missing:
        yield f"  never tested: {', '.join(missing)} (kshark check FILE --coverage --recipes says how to test them)"

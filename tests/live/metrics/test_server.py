"""Real scrapes over loopback; clients that are slow, many or hostile."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from kshark.errors import UsageError
from kshark.live import Status
from kshark.live.metrics import Metrics, server
from kshark.live.metrics.exposition import OPEN_METRICS, TEXT
from kshark.live.metrics.server import Address, Answer, MetricsServer, address
from kshark.run import Run
from tests.conversation import registry
from tests.live.metrics.scraped import samples
from tests.patience import PATIENCE_S

LOOPBACK = Address("127.0.0.1", 0)


def respond(path: str, accept: str) -> Answer:
    return Answer(HTTPStatus.OK, "text/plain", f"{path} {accept}".encode())


@pytest.fixture
def serving() -> Iterator[MetricsServer]:
    opened = MetricsServer(LOOPBACK, respond)
    opened.start()
    yield opened
    opened.close()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def ask(port: int, method: str = "GET", path: str = "/metrics", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, dict(response.getheaders()), body


def test_get_and_head(serving: MetricsServer) -> None:
    port = port_of(serving.url)
    status, headers, body = ask(port, path="/metrics?x=1", Accept="text/plain")
    assert (status, body) == (200, b"/metrics text/plain")
    assert headers["Content-Length"] == str(len(body))
    status, headers, empty = ask(port, "HEAD", Accept="text/plain")
    assert (status, empty, headers["Content-Length"]) == (200, b"", str(len(body)))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "PATCH"])
def test_no_other_method(serving: MetricsServer, method: str) -> None:
    status, headers, _ = ask(port_of(serving.url), method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"nonsense\0\xff\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"G" * 70_000 + b"\r\n\r\n",
    ],
)
def test_nonsense_is_refused_and_hurts_nobody(serving: MetricsServer, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port_of(serving.url)), PATIENCE_S) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        answer = client.recv(65_536)
    assert b"200 OK" not in answer
    assert ask(port_of(serving.url))[0] == 200


def test_slow_clients_are_cut_off_and_others_are_served_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them sends a byte now and then, and would hold its connection for ever."""
    monkeypatch.setattr(server, "DEADLINE_SECONDS", 0.5)
    monkeypatch.setattr(server, "RATE", 1_000)
    serving = MetricsServer(LOOPBACK, respond)
    serving.start()
    port = port_of(serving.url)
    slow = [socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(server.CONNECTIONS)]
    threads = [threading.Thread(target=trickle, args=(client,)) for client in slow]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert ask(port)[0] == 200
    serving.close()


def trickle(client: socket.socket) -> None:
    """Send a byte every tenth of a second until the server has enough."""
    try:
        while True:
            client.sendall(b"G")
            time.sleep(0.1)
    except OSError:
        client.close()


def test_connections_beyond_the_most_are_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "RATE", 1_000)
    serving = MetricsServer(LOOPBACK, respond)
    serving.start()
    port = port_of(serving.url)
    idle = [socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(server.CONNECTIONS)]
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as one_more:
        assert one_more.recv(1) == b""
    for client in idle:
        client.close()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            assert ask(port)[0] == 200
            break
        except OSError:  # closed at once: the server has not noticed yet that the others have gone
            time.sleep(0.05)
    else:
        pytest.fail("nobody is served any more")
    serving.close()


def test_the_end_does_not_wait_for_clients(serving: MetricsServer) -> None:
    with socket.create_connection(("127.0.0.1", port_of(serving.url)), PATIENCE_S) as idle:
        while not serving._server._since:
            time.sleep(0.01)
        serving.close()
        assert idle.recv(1) == b""


def test_an_address_that_is_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=rf"127\.0\.0\.1:{port}: .*choose another port"):
            MetricsServer(Address("127.0.0.1", port), respond)


def test_ipv6() -> None:
    try:
        serving = MetricsServer(address("[::1]:0"), respond)
    except UsageError as error:
        pytest.skip(f"no IPv6 here: {error}")
    assert serving.url.startswith("http://[::1]:")
    serving.start()
    with socket.create_connection(("::1", port_of(serving.url)), PATIENCE_S) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert b"200 OK" in client.recv(1_000)
    serving.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("0", ("127.0.0.1", 0)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        ("localhost:1", ("127.0.0.1", 1)),
        ("[::1]:9464", ("::1", 9464)),
        ("[::]:65535", ("::", 65535)),
    ],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert address(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no port"),
        ("port", "no port"),
        ("65536", "no port"),
        ("-1", "no port"),
        ("9464 ", "no port"),
        ("²", "no port"),
        (":9464", "0.0.0.0:9464 are all addresses"),
        ("::1:9464", "brackets"),
        ("[127.0.0.1]:9464", "brackets"),
        ("kafka.example:9464", "no IP address"),
        ("[::1]", "no port"),
        ("10.0.0.1", "no port"),
    ],
)
def test_wrong_addresses_say_what_is_right(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        address(text)


# -- the consumer


class Judging:
    """The judging thread: it tells the status as often as a capture does, until the end."""

    def __init__(self) -> None:
        self.metrics = Metrics(LOOPBACK, registry())
        self.metrics.judges(Run(registry(), on_change=self.metrics.changed))
        self.port = port_of(self.metrics.url)
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._thread = threading.Thread(target=self._judge)

    def __enter__(self) -> Judging:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.metrics.close([])

    def stop(self) -> None:
        self._goes_on.clear()
        self._thread.join()

    def _judge(self) -> None:
        packets = 0
        while self._goes_on.is_set():
            packets += 1
            self.metrics.status(Status(("lo",), 0, time.time_ns(), packets))
            time.sleep(0.01)


def test_a_scrape_gets_what_is_judged_by_then_in_the_format_it_asks_for() -> None:
    with Judging() as judging:
        status, headers, body = ask(judging.port)
        assert (status, headers["Content-Type"]) == (200, TEXT.content_type)
        found = samples(body.decode())
        assert found["kshark_packets_total", ()] >= 1
        assert abs(found["kshark_state_time_seconds", ()] - time.time()) < PATIENCE_S
        _, headers, body = ask(judging.port, Accept=OPEN_METRICS.content_type)
        assert headers["Content-Type"] == OPEN_METRICS.content_type
        assert body.endswith(b"# EOF\n")
        assert ask(judging.port, path="/-/ready")[::2] == (200, b"capturing\n")
        assert ask(judging.port, path="/-/healthy")[::2] == (200, b"judging\n")
        assert ask(judging.port, path="/")[0] == 404


def test_many_scrapes_at_once_are_one_copy() -> None:
    with Judging() as judging:
        ask(judging.port)
        number = judging.metrics._board.get().number
        begun = time.monotonic()
        for _ in range(10):
            assert ask(judging.port)[0] == 200
        assert judging.metrics._board._copy.number - number <= time.monotonic() - begun + 1


def test_a_scrape_is_answered_although_nobody_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was counted before, and the time of that; /-/healthy says that it is old."""
    monkeypatch.setattr("kshark.live.metrics.consumer.PATIENCE_SECONDS", 0.1)
    with Judging() as judging:
        _, _, before = ask(judging.port)
        judging.stop()
        time.sleep(1.1)
        status, _, body = ask(judging.port)
        assert (status, body) == (200, before)
        monkeypatch.setattr("kshark.live.metrics.consumer.SILENT_SECONDS", 0.5)
        assert ask(judging.port, path="/-/healthy")[::2] == (503, b"not judging\n")


def test_judging_never_waits_for_a_scrape() -> None:
    """A scrape holds no lock while it writes: the copy is made in the judging thread, the text is not."""
    metrics = Metrics(LOOPBACK, registry())
    metrics.judges(Run(registry(), on_change=metrics.changed))
    metrics._board.is_wanted = True
    with metrics._pages._lock:  # a scrape that writes for ever
        metrics.status(Status(("lo",), 0, 1))
    assert not metrics._board.is_wanted
    metrics.close([])

"""Answer scrapes over HTTP, in threads of its own.

The standard library's server, and not that of prometheus_client: a client cannot hold a thread for longer than
DEADLINE_SECONDS, and there are at most CONNECTIONS of them.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final, NamedTuple

from kshark.endpoints import endpoint
from kshark.errors import UsageError

#: Connections at the same time; further ones are closed at once.
CONNECTIONS: Final = 16
#: New connections a second; further ones wait.
RATE: Final = 50
#: No connection lives longer, whatever its client does.
DEADLINE_SECONDS: Final = 10
_POLL_SECONDS: Final = 0.25


class Answer(NamedTuple):
    """An answer to a GET."""

    status: HTTPStatus
    content_type: str
    body: bytes


#: Return the answer for a path and an Accept header. Called in any thread.
Respond = Callable[[str, str], Answer]


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int


def address(text: str) -> Address:
    """Parse `[ADDR:]PORT`; without an address, loopback. Raise ValueError with a sentence."""
    host, colon, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f'"{text}" ends with no port; write 9464, 0.0.0.0:9464 or [::]:9464')
    if not colon:
        return Address("127.0.0.1", int(port))
    if host == "localhost":
        host = "127.0.0.1"
    if not host:
        raise ValueError(f'"{text}" has no address before the colon; 0.0.0.0{text} are all addresses')
    is_bracketed = host.startswith("[") and host.endswith("]")
    try:
        number = ip_address(host[1:-1] if is_bracketed else host)
    except ValueError:
        raise ValueError(f'"{host}" is no IP address; kshark resolves no names') from None
    if (number.version == 6) is not is_bracketed:
        raise ValueError(f'"{text}": IPv6 addresses stand in brackets, as in [::1]:9464, and no others do')
    return Address(str(number), int(port))


class MetricsServer:
    """Listen from the beginning, and answer from `start` on, until `close`.

    The threads are started late, so that they have no rights that were given up before. Raise UsageError if the address
    cannot be used.
    """

    def __init__(self, at: Address, respond: Respond) -> None:
        try:
            self._server = _Server(at, respond)
        except OSError as error:
            where = endpoint(at.host, at.port)
            raise UsageError(
                f"metrics cannot be served on {where}: {error.strerror or error}; choose another port (0: any free one)"
            ) from None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The address of the metrics, with the port that was chosen."""
        host, port = self._server.server_address[:2]
        return f"http://{endpoint(str(host), int(port))}/metrics"

    def start(self) -> None:
        """Begin to answer; more calls change nothing."""
        if self._thread is None:
            serve = self._server.serve_forever
            self._thread = threading.Thread(target=serve, args=(_POLL_SECONDS,), name="metrics", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop to listen, and end all connections."""
        if self._thread is not None:
            self._server.shutdown()
        self._server.server_close()
        self._server.end_connections(0)


class _Server(ThreadingMixIn, TCPServer):
    """A thread for each connection, within the limits above."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = CONNECTIONS

    def __init__(self, at: Address, respond: Respond) -> None:
        self.address_family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
        self.respond = respond
        self._lock = threading.Lock()
        #: When each open connection began.
        self._since: dict[socket.socket, float] = {}
        self._next = 0.0
        super().__init__((at.host, at.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        now = time.monotonic()
        if now < self._next:
            time.sleep(self._next - now)
        self._next = max(now, self._next) + 1 / RATE
        with self._lock:
            is_full = len(self._since) >= CONNECTIONS
            if not is_full:
                self._since[request] = now
        if is_full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._since.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        self.end_connections(DEADLINE_SECONDS)

    def end_connections(self, seconds: float) -> None:
        """End the connections that are older."""
        with self._lock:
            old = [request for request, since in self._since.items() if since + seconds <= time.monotonic()]
            for request in old:
                try:
                    request.shutdown(socket.SHUT_RDWR)  # its thread wakes up and closes it
                except OSError:
                    continue  # its client has closed it

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report errors that are no client's that has gone or was too slow."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answer one request: HTTP/1.0, so the connection ends after it."""

    timeout = DEADLINE_SECONDS
    server: _Server
    server_version = "kshark"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self._send(self.server.respond(self.path.partition("?")[0], self.headers.get("Accept", "")))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that cannot be read, or has another method, with one line."""
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self._send(Answer(status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode()))

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, *_: Any) -> None:
        """Write no log: stderr is for people."""

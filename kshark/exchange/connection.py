"""State of a connection that is needed to understand its next frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kshark.api_keys import API_VERSIONS
from kshark.exchange.offer import is_offered
from kshark.exchange.open_requests import ByCorrelationId, OpenRequest, OpenRequests
from kshark.model import Closed, Flow

#: Default time that clients wait for an answer (request.timeout.ms).
_REQUEST_TIMEOUT_NS: Final = 30_000_000_000


class KafkaConnection:  # a struct takes longer to change, a dataclass to import
    """A Kafka connection as the exchange stage sees it: its open requests and its settings."""

    __slots__ = (
        "answers_lost",
        "authenticated",
        "broker",
        "by_id",
        "client",
        "flow",
        "given_up",
        "highest",
        "is_early",
        "number",
        "offered",
        "one_way",
        "open",
        "proxy",
        "raw",
        "raw_open",
    )

    def __init__(self, flow: Flow, client: str, broker: str, proxy: str | None = None) -> None:
        self.flow = flow
        self.client = client
        self.broker = broker
        #: The TCP connection's end, if that is a proxy which named the client.
        self.proxy = proxy
        self.open: OpenRequests = []
        #: The number of requests that were given up because too many were open, and whose answers may still come.
        self.given_up: int = 0
        #: No open request has a higher correlation id.
        self.highest: int = -1 << 31
        #: Correlation ids of the last one-way requests: an answer to one of them is a fault of the broker.
        self.one_way: list[int] = []
        #: SASL tokens without header follow (SaslHandshake v0); `raw_open` counts the client's unanswered tokens.
        self.raw: bool = False
        self.raw_open: int = 0
        #: Answers may be missing: bytes from the broker were lost since the oldest open request was sent.
        self.answers_lost: bool = False
        #: The client uses APIs in versions that no final release accepts.
        self.is_early: bool = False
        #: The ranges in the broker's answer to ApiVersions (offer_of); empty before that.
        self.offered: bytes = b""
        #: True if the broker accepted a step of SASL authentication, False if it has only accepted the mechanism; None:
        #: authentication has not begun, or the broker refused it.
        self.authenticated: bool | None = None
        #: The highest number of a request that was sent while others were open.
        self.number: int = 0
        #: Index of the open requests; None until it is first needed.
        self.by_id: ByCorrelationId | None = None

    def index_of(self, correlation_id: int) -> int | None:
        """Return the index of the oldest open request with this correlation id; None if there is none."""
        if correlation_id > self.highest:
            return None
        if self.by_id is None:
            self.by_id = ByCorrelationId()
        return self.by_id.index_of(self.open, correlation_id)

    def may_be_older(self, correlation_id: int) -> bool:
        """True if a request may have been sent before the first captured one.

        Clients count their correlation ids up.
        """
        begun = self.flow.begun[self.flow.client_side or 0]
        return not begun and (not self.open or correlation_id < self.open[0].correlation_id)

    def without_answer(self, request: OpenRequest, closed: Closed) -> Iterator[tuple[str, str]]:
        """Yield the faults of a request that was open when the connection was closed.

        Each is a code, and text to add to the request's name.
        """
        yield "REQUEST_UNANSWERED", ""
        if closed.time_ns - request.message.time_ns >= _REQUEST_TIMEOUT_NS:
            yield "REQUEST_TIMEOUT_CLOSE", ""
        key, version = request.decoder.key, request.decoder.version
        if self.offered and not is_offered(self.offered, key, version):
            yield "VERSION_NOT_ADVERTISED", f", version {version}"
        if self.authenticated is False and request.decoder.sasl is None and key != API_VERSIONS:
            yield "SASL_SEQUENCE", ""

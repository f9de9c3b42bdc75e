"""What must be known of a connection to understand its next frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kshark.api_keys import API_VERSIONS
from kshark.exchange.offer import is_offered
from kshark.exchange.open_requests import ByCorrelationId, OpenRequest
from kshark.model import Closed, Flow

#: How long clients wait for an answer, unless configured (request.timeout.ms).
_REQUEST_TIMEOUT_NS: Final = 30_000_000_000


@dataclass(slots=True, eq=False)  # a struct takes longer to change
class KafkaConnection:
    """A connection of Kafka's, as the exchange stage knows it."""

    flow: Flow
    client: str
    broker: str
    open: list[OpenRequest] = field(default_factory=list)
    #: No open request has a higher correlation id.
    highest: int = -1 << 31
    #: Correlation ids of the last one-way requests: an answer to one of them is a fault of the broker.
    one_way: list[int] = field(default_factory=list)
    #: SASL tokens without header follow (SaslHandshake v0); how many of the client's are not answered yet.
    raw: bool = False
    raw_open: int = 0
    #: Answers may be missing: bytes from the broker were lost since the oldest open request was sent.
    answers_lost: bool = False
    #: It uses APIs in versions that no finished release takes.
    is_early: bool = False
    #: What the broker answered to ApiVersions (offer_of); empty before that.
    offered: bytes = b""
    #: Whether the broker took what its client authenticates itself by, or a part of it; None: that has not begun, or
    #: was refused.
    authenticated: bool | None = None
    #: The highest number of a request that found others open.
    number: int = 0
    #: Where the open requests stand; None as long as nobody had to ask.
    by_id: ByCorrelationId | None = None

    def index_of(self, correlation_id: int) -> int | None:
        """Where the oldest open request with that correlation id stands; None where there is none."""
        if correlation_id > self.highest:
            return None
        if self.by_id is None:
            self.by_id = ByCorrelationId()
        return self.by_id.index_of(self.open, correlation_id)

    def may_be_older(self, correlation_id: int) -> bool:
        """Whether a request may have been sent before the first that is here: clients count their requests up."""
        begun = self.flow.begun[self.flow.client_side or 0]
        return not begun and (not self.open or correlation_id < self.open[0].correlation_id)

    def without_answer(self, request: OpenRequest, closed: Closed) -> Iterator[tuple[str, str]]:
        """What is odd about a request that was open when the connection was closed: codes, and what they add to its
        name."""
        yield "REQUEST_UNANSWERED", ""
        if closed.time_ns - request.message.time_ns >= _REQUEST_TIMEOUT_NS:
            yield "REQUEST_TIMEOUT_CLOSE", ""
        key, version = request.decoder.key, request.decoder.version
        if self.offered and not is_offered(self.offered, key, version):
            yield "VERSION_NOT_ADVERTISED", f", version {version}"
        if self.authenticated is False and request.decoder.sasl is None and key != API_VERSIONS:
            yield "SASL_SEQUENCE", ""

"""The watchers, a file for each subject, with the rows of their incidents."""

from __future__ import annotations

from typing import Final

from kshark.incidents.watcher import Watcher
from kshark.incidents.watchers.brokers import BrokerEnds
from kshark.incidents.watchers.closings import ClosedOn
from kshark.incidents.watchers.endpoints import Endpoints
from kshark.incidents.watchers.network import Network
from kshark.incidents.watchers.requests import Requests
from kshark.incidents.watchers.sasl import SaslSessions
from kshark.incidents.watchers.tls import Handshakes

WATCHERS: Final[tuple[type[Watcher], ...]] = (
    Requests,
    Network,
    BrokerEnds,
    Handshakes,
    Endpoints,
    ClosedOn,
    SaslSessions,
)
ROWS: Final = tuple(sorted((row for watcher in WATCHERS for row in watcher.rows), key=lambda row: row.number or 0))

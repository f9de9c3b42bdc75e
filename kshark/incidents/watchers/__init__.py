"""The watchers, a file for each subject, with the rows of their incidents."""

from __future__ import annotations

from typing import Final

from kshark.analysis.rules import BOOK
from kshark.incidents.watcher import Watcher
from kshark.incidents.watchers.brokers import BrokerEnds
from kshark.incidents.watchers.closings import ClosedOn
from kshark.incidents.watchers.dead_letters import DeadLetters
from kshark.incidents.watchers.endpoints import Endpoints
from kshark.incidents.watchers.fencing import Fencing
from kshark.incidents.watchers.fetch_sessions import FetchSessions
from kshark.incidents.watchers.keys import HashedKeys
from kshark.incidents.watchers.members import Members
from kshark.incidents.watchers.missing_topics import MissingTopics
from kshark.incidents.watchers.network import Network
from kshark.incidents.watchers.producers import Producers
from kshark.incidents.watchers.rebalances import Rebalancing
from kshark.incidents.watchers.refused_records import RefusedRecords
from kshark.incidents.watchers.requests import Requests
from kshark.incidents.watchers.retries import Retries
from kshark.incidents.watchers.rights import Rights
from kshark.incidents.watchers.sasl import SaslSessions
from kshark.incidents.watchers.session_table import SessionTables
from kshark.incidents.watchers.throttling import Throttling
from kshark.incidents.watchers.tls import Handshakes
from kshark.incidents.watchers.topics import Topics
from kshark.incidents.watchers.transactions import HangingTransactions

WATCHERS: Final[tuple[type[Watcher], ...]] = (
    # These two feed the scene, which others read.
    Topics,
    Throttling,
    Members,
    Requests,
    Network,
    BrokerEnds,
    SessionTables,
    DeadLetters,
    Retries,
    Handshakes,
    Endpoints,
    ClosedOn,
    SaslSessions,
    Rights,
    FetchSessions,
    RefusedRecords,
    MissingTopics,
    Fencing,
    Producers,
    HangingTransactions,
    Rebalancing,
)
#: Those that need the records of batches (`kshark check --records`).
WITH_RECORDS: Final[tuple[type[Watcher], ...]] = (HashedKeys,)
#: APIs whose whole bodies watchers read, and codes of the weirds that they take.
APIS: Final = frozenset().union(*(apis for watcher in WATCHERS for apis in (watcher.apis, watcher.requests) if apis))
WEIRDS: Final = frozenset().union(*(watcher.weirds for watcher in WATCHERS))
#: APIs that rules or rows of incidents judge.
JUDGED: Final = BOOK.apis.union(*(watcher.judges for watcher in WATCHERS))
_EVERY: Final = (*WATCHERS, *WITH_RECORDS)
ROWS: Final = tuple(sorted((row for watcher in _EVERY for row in watcher.rows), key=lambda row: row.number or 0))

"""All tables, in the order in which `kshark explain tables` prints them."""

from __future__ import annotations

from typing import Final

from kshark.tables.batches import RECORD_BATCHES, RECORDS
from kshark.tables.capture_summary import CAPTURES
from kshark.tables.columns import Table
from kshark.tables.connections import FLOWS
from kshark.tables.coordinators import COORDINATOR_RECORDS
from kshark.tables.exchanges import EXCHANGES
from kshark.tables.groups import HEARTBEATS, SHARE_STATE
from kshark.tables.sessions import SESSIONS, STEPS
from kshark.tables.share import ACKNOWLEDGEMENTS, ACQUIRED, SHARE_REQUESTS
from kshark.tables.weirds import FAULTS, FINDINGS, WEIRDS

#: Tables that need opened records, and exist only where these were asked for.
OF_RECORDS: Final = ("records", "coordinator_records")
TABLES: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        EXCHANGES,
        SHARE_REQUESTS,
        ACQUIRED,
        ACKNOWLEDGEMENTS,
        SESSIONS,
        STEPS,
        HEARTBEATS,
        SHARE_STATE,
        RECORD_BATCHES,
        RECORDS,
        COORDINATOR_RECORDS,
        FLOWS,
        WEIRDS,
        FINDINGS,
        FAULTS,
        CAPTURES,
    )
}

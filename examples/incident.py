"""An incident as JSON lines, for a ticket or a log store: python examples/incident.py trace.pcap...

What happened (brokers down, leaders moved, topics deleted), the share sessions that were lost, the groups with their
members, and the records that somebody rejected.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import kshark


def incident(*captures: str, tls_keys: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the objects, each with its kind."""
    given: kshark.Options = {"tls_keys": tls_keys}
    for entry in kshark.events(*captures, kinds=["event", "leader", "topic"], **given):
        yield {"what": "event", **entry.to_dict()}
    for session in kshark.sessions(*captures, **given):
        if session.closed is not None and session.closed.how in ("broker_restart", "evicted", "connection_closed"):
            yield {"what": "lost session", **session.to_dict()}
    for group in kshark.groups(*captures, **given):
        present = [member.client_id for member in group.members if member.present]
        yield {"what": "group", "group_id": group.group_id, "state": group.state, "members": present}
    for delivery in kshark.deliveries(*captures, **given):
        if delivery.event == "rejected":
            where = {"topic": delivery.topic, "partition": delivery.partition, "offsets": delivery.offsets}
            yield {"what": "rejected", **where, "client_id": delivery.client_id}


if __name__ == "__main__":
    for found in incident(*sys.argv[1:]):
        print(json.dumps(found))

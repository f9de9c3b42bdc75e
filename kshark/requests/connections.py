"""Read the names that brokers give to connections, as `127.0.0.1:9092-127.0.0.1:53294-0-4`.

They are the addresses of the broker and of the client, and the numbers of the processor and of the connection there,
which a broker's process uses once. Kafka: SocketServer, ServerConnectionId.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

_NAME: Final = re.compile(r"(.+):(\d+)-(.+):(\d+)((?:-\d+)+)$")


class Connection(Struct, frozen=True):
    """The parts of a connection's name. `numbers`: those that make it unique, as `-0-4`."""

    broker: str
    broker_port: str
    client: str
    client_port: str
    numbers: str


@lru_cache(maxsize=4_096)
def connection_of(name: str) -> Connection | None:
    """Return the parts of a connection's name; None if it is none of a broker's."""
    match = _NAME.match(name)
    return None if match is None else Connection(*match.groups())

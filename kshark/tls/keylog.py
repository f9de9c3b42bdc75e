"""A key log: the secrets of TLS connections, one secret a line, as browsers, OpenSSL and agents for Java write them.

`CLIENT_RANDOM <client random> <master secret>` for TLS 1.2; for TLS 1.3 `CLIENT_HANDSHAKE_TRAFFIC_SECRET <client
random> <secret>` and others. Source: RFC 9850 ("The SSLKEYLOGFILE Format for TLS").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from kshark import limits

MASTER_SECRET: Final = "CLIENT_RANDOM"
EARLY: Final = "CLIENT_EARLY_TRAFFIC_SECRET"
#: Labels of the client and of the server.
HANDSHAKE: Final = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET")
APPLICATION: Final = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
_LABELS: Final = (MASTER_SECRET, EARLY, *HANDSHAKE, *APPLICATION)


class KeyLog:
    """Secrets by the client random of a connection's ClientHello.

    Beyond limits.TLS_KEYS connections the first ones are forgotten.
    """

    def __init__(self, text: bytes = b"") -> None:
        self._secrets: dict[bytes, dict[str, bytes]] = {}
        self.add(text)

    def add(self, text: bytes) -> None:
        """Add the secrets of some whole lines; other lines are ignored."""
        for label, random, secret in _lines().findall(text) if text else ():
            client_random = bytes.fromhex(random.decode())
            if client_random not in self._secrets and len(self._secrets) >= limits.TLS_KEYS:
                del self._secrets[next(iter(self._secrets))]
            self._secrets.setdefault(client_random, {})[label.decode()] = bytes.fromhex(secret.decode())

    def of(self, client_random: bytes) -> Mapping[str, bytes]:
        """Return the secrets of a connection by their labels; empty for an unknown one."""
        return self._secrets.get(client_random, {})

    def __len__(self) -> int:
        """The number of connections with secrets."""
        return len(self._secrets)


@cache
def _lines() -> re.Pattern[bytes]:
    labels = b"|".join(label.encode() for label in _LABELS)
    return re.compile(rb"^(%b) ([0-9a-fA-F]{64}) ((?:[0-9a-fA-F]{2}){32,64})[ \t\r]*$" % labels, re.MULTILINE)

"""The brokers of a cluster that Metadata names, and those that the capture shows."""

from __future__ import annotations

from kshark import limits
from kshark.api_keys import METADATA
from kshark.endpoints import address_of, endpoint, port_of
from kshark.model import Exchange


class Sight:
    """The brokers of a cluster: those that Metadata names by address, and those with captured traffic. Host names are
    not resolved."""

    def __init__(self) -> None:
        self._named: dict[str, None] = {}
        self._seen: dict[str, None] = {}

    def feed(self, exchange: Exchange) -> None:
        if len(self._seen) < limits.BROKERS:
            self._seen[exchange.flow.broker] = None
        answer = exchange.response
        if answer is None or answer.api_key != METADATA:
            return
        for broker in getattr(answer.body, "brokers", None) or ():
            is_read = isinstance(broker.host, str) and isinstance(broker.port, int)
            if is_read and len(self._named) < limits.BROKERS and address_of(f"{broker.host}:{broker.port}") is not None:
                self._named[endpoint(broker.host, broker.port)] = None

    def missing(self) -> list[str]:
        """Return the addresses of brokers without captured traffic."""
        return [address for address in self._named if address not in self._seen]

    def unnamed(self) -> list[str]:
        """Return the addresses of captured brokers that Metadata does not name: they were rewritten on the way, or
        belong to host names."""
        return [address for address in self._seen if address not in self._named]

    def is_seen(self, host: str | None) -> bool:
        """True if the broker that is named `host` has captured traffic under this address."""
        return host in self._seen

    def may_be(self, host: str | None, broker: str | None) -> bool:
        """True if the broker that is named `host` may have the address `broker`: the name is a host name, or the
        address is rewritten (NAT, a load balancer). An address can be rewritten only if it has no captured traffic
        itself, and the other one is not named."""
        if host is None or broker is None or host == broker:
            return True
        if address_of(host) is None:
            return port_of(host) == port_of(broker)
        return host in self._named and host not in self._seen and broker not in self._named

"""Which brokers of a cluster are named, and which spoke: what of them the capture holds."""

from __future__ import annotations

from kshark import limits
from kshark.api_keys import METADATA
from kshark.endpoints import address_of, endpoint, port_of
from kshark.model import Exchange


class Sight:
    """Brokers of a cluster: those that Metadata names by address, and those that spoke. Names of hosts are resolved
    elsewhere."""

    def __init__(self) -> None:
        self._named: dict[str, None] = {}
        self._heard: dict[str, None] = {}

    def feed(self, exchange: Exchange) -> None:
        if len(self._heard) < limits.BROKERS:
            self._heard[exchange.flow.broker] = None
        answer = exchange.response
        if answer is None or answer.api_key != METADATA:
            return
        for one in getattr(answer.body, "brokers", None) or ():
            is_read = isinstance(one.host, str) and isinstance(one.port, int)
            if is_read and len(self._named) < limits.BROKERS and address_of(f"{one.host}:{one.port}") is not None:
                self._named[endpoint(one.host, one.port)] = None

    def missing(self) -> list[str]:
        """Addresses of brokers of which nothing was captured."""
        return [address for address in self._named if address not in self._heard]

    def unnamed(self) -> list[str]:
        """Addresses at which brokers spoke, and by which none is named: they were rewritten on the way, or stand behind
        names of hosts."""
        return [address for address in self._heard if address not in self._named]

    def may_be(self, host: str | None, broker: str | None) -> bool:
        """Whether a broker that is named so may have that address: its name is resolved, or its address rewritten (NAT,
        a load balancer), where nobody speaks at the one and nobody is named by the other."""
        if host is None or broker is None or host == broker:
            return True
        if address_of(host) is None:
            return port_of(host) == port_of(broker)
        return host in self._named and host not in self._heard and broker not in self._named

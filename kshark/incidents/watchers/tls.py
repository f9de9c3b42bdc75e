"""Connections that end in the handshake of TLS. Incident 137."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.rules.rule import Rule
from kshark.endpoints import host_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import listed, seconds
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Closed, Flow, Weird, Witness
from kshark.tls.signs import ENCRYPTED
from kshark.units import counted

#: Failures of one kind that are farther apart are incidents of their own.
_APART_NS: Final = 300_000_000_000
_WITNESSES: Final = 8
PLAIN_CLIENT: Final = "plain_client"
#: What an alert means, by its name; "it" is its sender, {peer} the other end. Source: RFC 8446, section 6.2; RFC 5246,
#: section 7.2.2.
_MEANINGS: Final = {
    "unknown_ca": "it does not know the authority that signed the {peer}'s certificate",
    "bad_certificate": "it refuses the {peer}'s certificate, or got none",
    "unsupported_certificate": "it cannot use the {peer}'s kind of certificate",
    "certificate_revoked": "the {peer}'s certificate is revoked",
    "certificate_expired": "the {peer}'s certificate is expired, or not valid yet",
    "certificate_unknown": "it refuses the {peer}'s certificate: not trusted, or for another host name",
    "certificate_required": "it wants a certificate, and the {peer} sent none",
    "access_denied": "it knows the {peer}'s certificate, and does not let it in",
    "protocol_version": "it accepts none of the {peer}'s versions of TLS",
    "insufficient_security": "it finds the {peer}'s cipher suites too weak",
    "handshake_failure": "they have no cipher suite in common, or it wants a certificate and got none",
    "unrecognized_name": "it does not have the host name that the {peer} asked for",
    "no_application_protocol": "they have no application protocol in common (ALPN)",
}
#: What an encrypted alert of a client, and of a broker, most likely means.
_ENCRYPTED: Final = {
    True: "its name is in the client's log; most likely it does not trust the broker's certificate",
    False: "its name is in the broker's log; if brokers want certificates, the client's is missing or not trusted",
}

TLS_HANDSHAKE_FAILED: Final = Rule(
    number=137,
    code="TLS_HANDSHAKE_FAILED",
    text="The handshake of TLS ended with an alert.",
    source="RFC 8446, section 6; RFC 5246, section 7.2",
    blame=("client", "broker"),
    verdicts=("note",),
    causes=(PLAIN_CLIENT,),
    must="Both sides agree on TLS: a version, a cipher suite, and certificates that each trusts.",
    advice="Compare security.protocol, truststores, certificates and TLS versions (ssl.enabled.protocols) of the two; "
    "openssl s_client -connect BROKER shows what the listener offers.",
    weight=50,
    explains=("REQUEST_UNANSWERED",),
)


class _Kind(Struct, frozen=True):
    """Failures that are one incident: of a client's host at a broker, by the sender and the name of the alert."""

    host: str
    broker: str
    is_client: bool
    alert: str
    is_plain: bool


class _Failures(Struct, eq=False):
    """Connections that failed in the same way, one after the other."""

    watcher: Handshakes
    kind: _Kind
    flow: Flow
    since: PacketTime
    alert: int
    last: PacketTime
    versions: set[str]
    witness: list[Witness]
    count: int = 0

    def due_ns(self) -> int | None:
        return self.last.time_ns + _APART_NS

    def missed(self) -> Iterable[Incident]:
        return self.watcher.over(self)


class Handshakes(Watcher):
    """Watch alerts in handshakes, and connections to the same brokers that send nothing."""

    rows = (TLS_HANDSHAKE_FAILED,)
    kinds = (Closed,)
    weirds = frozenset({"TLS_ALERT"})

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._failures: dict[_Kind, _Failures] = {}
        #: Connections without a byte of anybody that their client closed, by broker and client host.
        self._empty: dict[str, dict[str, int]] = {}

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        if isinstance(event, Weird):
            flow = self.scene.flows.get(-1 if event.flow is None else event.flow)
            if flow is not None and event.side is not None:
                self._alert(event, flow)
        elif isinstance(event, Closed) and event.how == "fin" and not any(event.flow.stream_bytes):
            self._check(event.flow)
        return NOTHING

    def close(self) -> Iterable[Incident]:
        for failures in [*self._failures.values()]:
            yield from self.over(failures)

    def _alert(self, weird: Weird, flow: Flow) -> None:
        client = flow.calling_side
        is_plain, is_client = weird.stage == "framing", weird.side == client
        name, _, version = weird.detail.partition(", ")
        if is_client and not version:
            return  # it read no ServerHello: a listener without TLS closes like that
        kind = _Kind(host_of(flow.ends[client]), flow.ends[1 - client], is_client, name, is_plain)
        now = PacketTime(weird.packet, weird.time_ns)
        first = weird.packet if weird.first_packet is None else weird.first_packet
        failures = self._failures.get(kind)
        if failures is None:
            if len(self._failures) >= limits.TLS_FAILURES:
                return
            began = PacketTime(flow.first_packet, flow.first_time_ns)
            failures = self._failures[kind] = _Failures(self, kind, flow, began, first, now, set(), [])
        failures.last = now
        failures.count += 1
        if version:
            failures.versions.add(version)
        if len(failures.witness) < _WITNESSES:
            failures.witness.append(Witness(flow.id, None, None, None, first, f"alert {name}"))
        self.due.add(failures)

    def _check(self, flow: Flow) -> None:
        """Count a connection that was accepted and closed without a byte."""
        hosts = self._empty.get(flow.broker)
        if hosts is None:
            if len(self._empty) >= limits.BROKERS:
                return
            hosts = self._empty[flow.broker] = {}
        host = host_of(flow.client)
        if host in hosts or len(hosts) < limits.CHECKING_HOSTS:
            hosts[host] = hosts.get(host, 0) + 1

    def over(self, failures: _Failures) -> Iterator[Incident]:
        """Yield the incident of failures that do not go on."""
        kind = failures.kind
        del self._failures[kind]
        ends = (kind.host, kind.broker)
        yield Incident(
            TLS_HANDSHAKE_FAILED,
            failures.since,
            failures.last,
            failures.flow,
            f"{_text(failures)}{self._checks(kind.broker)}",
            Where(brokers=frozenset(ends[1:]), hosts=frozenset(ends[:1])),
            tuple(failures.witness),
            blame="client" if kind.is_plain else "unknown",
            cause=PLAIN_CLIENT if kind.is_plain else None,
            of_client=True,
        )

    def _checks(self, broker: str) -> str:
        """Return a note on connections without a ClientHello."""
        hosts = self._empty.get(broker)
        if not hosts:
            return ""
        count = counted(sum(hosts.values()), "connection")
        return f". Not counted: {count} of {listed(hosts)} without a ClientHello (health checks)"


def _text(failures: _Failures) -> str:
    kind, count = failures.kind, failures.count
    times = counted(count, "connection")
    if count > 1:
        times += f" in {seconds(failures.last.time_ns - failures.since.time_ns)}"
    if kind.is_plain:
        return (
            f"Listener {kind.broker} speaks TLS, the client {kind.host} does not: {times}; the answer to its Kafka "
            f"request is the TLS alert {kind.alert} (packet {failures.alert})"
        )
    sender, peer = ("client", "broker") if kind.is_client else ("broker", "client")
    is_encrypted = kind.alert == ENCRYPTED
    meaning = _ENCRYPTED[kind.is_client] if is_encrypted else _MEANINGS.get(kind.alert, "").format(peer=peer)
    name = "an encrypted alert" if is_encrypted else f"the alert {kind.alert}"
    versions = f" ({', '.join(sorted(failures.versions))})" if failures.versions else ""
    return (
        f"TLS handshakes of {kind.host} with broker {kind.broker} fail{versions}: {times}, refused by the {sender} "
        f"with {name} (packet {failures.alert}){': ' * bool(meaning)}{meaning}"
    )

"""What conversations about sessions have in common: opened sessions, records handed out, assignments, restarts."""

from __future__ import annotations

from typing import Any

from kshark.model import ACK, FIN, SYN, Finding
from tests.conversation import BROKER, TOPIC, Asked, Connection, Conversation, Member, Thinned, findings
from tests.packets import Tcp

INVALID_REQUEST = 42
SHARE_SESSION_LIMIT_REACHED = 133
UNKNOWN_SERVER_ERROR = -1


def opened(talk: Conversation, upto: int = 0, *, name: str = "a", **how: Any) -> Member:
    """A member whose session has had the epochs up to that one accepted."""
    member = talk.member(name, **how)
    for epoch in range(upto + 1):
        member.share_fetch(epoch).answered()
    return member


def stranger(talk: Conversation, name: str = "a") -> Member:
    """A member of whose connection the capture does not hold the beginning: where its first requests begin is likely, not certain."""
    return talk.member(name, connection=talk.connection(from_syn=False, introduced=False), joined=False)


def handed(*ranges: tuple[int, int, int]) -> list[dict[str, Any]]:
    """Acquired records, by (partition, first, last)."""
    partitions = [
        {"partition_index": p, "acquired_records": [{"first_offset": first, "last_offset": last, "delivery_count": 1}], "records": b""}
        for p, first, last in ranges
    ]
    return [{"topic_id": TOPIC, "partitions": partitions}]


def assigned(a: Member, *partitions: int) -> Asked:
    """A heartbeat whose answer assigns these partitions."""
    assignment = {"topic_partitions": [{"topic_id": TOPIC, "partitions": list(partitions)}]}
    return a.heartbeat(1).answered(member_id=a.member_id, member_epoch=1, assignment=assignment)


def unchanged(a: Member) -> Asked:
    """A heartbeat whose answer leaves everything as it was."""
    return a.heartbeat(1).answered(member_id=a.member_id, member_epoch=1, assignment=None)


def left(a: Member) -> Asked:
    """The member leaves its group."""
    return a.heartbeat(-1).answered(member_id=a.member_id, member_epoch=-1)


def codes(talk: Conversation | Thinned) -> list[tuple[str, str]]:
    """Code and verdict of everything found."""
    return [(finding.code, finding.verdict) for finding in findings(talk)]


def caused(talk: Conversation | Thinned) -> list[Finding]:
    """The findings that explain a refusal."""
    return [finding for finding in findings(talk) if finding.cause is not None]


def broker_closes(connection: Connection) -> None:
    """The broker ends the connection in good order."""
    connection.tcp._send(1, FIN | ACK)
    connection.tcp._send(0, FIN | ACK)
    connection.tcp._send(1, ACK)


def broker_refuses(talk: Conversation, broker: str = BROKER) -> None:
    """Nobody listens: a SYN is answered by RST."""
    talk._ports += 1
    tcp = Tcp(talk.wire, f"10.0.0.1:{talk._ports}", broker, [talk._ports * 1000, talk._ports * 3000])
    tcp._send(0, SYN)
    tcp.reset(1)

"""A conversation with several incidents, as a capture file."""

from __future__ import annotations

from pathlib import Path

from tests.conversation import Conversation
from tests.incidents.test_session_table import client, refuse
from tests.incidents.test_throttling import heartbeat, produce
from tests.incidents.test_topics import GONE, admin, delete, done
from tests.packets import pcap


def trouble() -> Conversation:
    """A topic is deleted, a client is throttled, the session table is full, and an answer does not come."""
    talk = Conversation()
    a, b, c = client(talk, "c1"), client(talk, "c2", "h"), client(talk, "c3")
    other = talk.connection(host="10.0.0.2")
    a.share_fetch(0, [0]).answered()
    for _ in range(3):
        refuse(b)
        refuse(c)
        talk.pause(1)
    heartbeat(other, 2000)
    talk.pause(2)
    heartbeat(other)
    done(delete(admin(talk)))
    a.share_fetch(1).answered(responses=GONE)
    produce(other, None)
    talk.pause(60)
    a.share_fetch(2).answered(responses=GONE)
    return talk


def filed(talk: Conversation, path: Path) -> str:
    path.write_bytes(pcap(packet for _, packet in talk.packets()))
    return str(path)

"""A small incident as a capture file: one member counts a request that the broker refused, another behaves."""

from __future__ import annotations

from pathlib import Path

from tests.conversation import INVALID_SHARE_SESSION_EPOCH, TOPIC, Conversation
from tests.packets import Packet, pcap


def incident() -> list[Packet]:
    """Connection 0: member a, epochs 0, 1, then 3 and refused. Connection 1: member b, epochs 0 and -1."""
    talk = Conversation()
    a, b = talk.member("a", group="billing"), talk.member("b", group="audit")
    a.share_fetch(0, [0, 1]).answered(
        responses=[
            {
                "topic_id": TOPIC,
                "partitions": [
                    {
                        "partition_index": 0,
                        "acquired_records": [{"first_offset": 100, "last_offset": 109, "delivery_count": 1}],
                    },
                    {
                        "partition_index": 1,
                        "acquired_records": [{"first_offset": 7, "last_offset": 7, "delivery_count": 2}],
                    },
                ],
            }
        ]
    )
    b.share_fetch(0, [2]).answered()
    a.share_fetch(1, [0], acks=[(100, 108, 1), (109, 109, 2)]).answered()
    talk.pause(5)
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    b.share_acknowledge(-1).answered()
    a.connection.close()
    b.connection.close()
    return talk.wire.packets


def written(folder: Path, packets: list[Packet] | None = None, name: str = "incident.pcap") -> Path:
    path = folder / name
    path.write_bytes(pcap(incident() if packets is None else packets))
    return path

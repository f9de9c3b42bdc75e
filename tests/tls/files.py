"""A conversation inside TLS as files: its capture, its key log, and a pcapng that holds both."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.capture.files import Pcapng
from tests.conversation import Conversation
from tests.packets import pcap
from tests.tls.speaking import Secrets

SECRETS_BLOCK, TLS_KEY_LOG = 10, 0x544C534B
Files = tuple[Path, Path, Path]


def write_files(folder: Path, talk: Conversation, secrets: Secrets) -> Files:
    """Write the capture, the key log and the pcapng."""
    capture, keys, both = folder / "a.pcap", folder / "a.keys", folder / "a.pcapng"
    capture.write_bytes(pcap(talk.wire.packets))
    keys.write_bytes(secrets.text)
    file = Pcapng().section().interface(1, 0, (9, b"\x09"))
    file.block(SECRETS_BLOCK, struct.pack("<II", TLS_KEY_LOG, len(secrets.text)) + secrets.text)
    for packet in talk.wire.packets:
        file.enhanced(packet.data, packet.time_ns)
    both.write_bytes(bytes(file))
    return capture, keys, both

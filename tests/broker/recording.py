"""The capture of a walk: by our own live capture where the right to capture is there, else from what the clients sent
and received.

`python -m tests.broker.recording PORTS FILE` captures on loopback until it is told to end.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from kshark.capture.live import LiveCapture
from kshark.errors import UnreadableInput, UsageError
from kshark.model import PacketBatch
from tests.broker.server import NoBroker
from tests.packets import Packet, pcap

READY: Final = b"ready\n"
#: Where ports stand in an Ethernet frame with an IPv4 header without options, as loopback's are.
PORTS_AT: Final = 34
#: Exit code: the capture is not complete.
DROPPED: Final = 3


@contextlib.contextmanager
def recorded(ports: Collection[int], path: Path) -> Iterator[bool]:
    """Captures what goes over these ports of loopback into a file while the context lasts; whether it may."""
    command = (sys.executable, "-m", "tests.broker.recording", ",".join(map(str, ports)), str(path))
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    captures = process.stdout.readline() == READY
    try:
        yield captures
    finally:
        if captures:
            process.send_signal(signal.SIGTERM)
        process.stdout.close()
        dropped = process.wait() == DROPPED
    if dropped:
        raise NoBroker("the machine was too busy: the kernel dropped packets of the walk")


def _of_interest(batch: PacketBatch, ports: Collection[int]) -> Iterator[Packet]:
    columns = (batch.time_ns, batch.offset, batch.length, batch.wire_length)
    for time_ns, offset, length, wire in zip(*(column.tolist() for column in columns), strict=True):
        data = batch.buffer[offset : offset + length]
        at = PORTS_AT
        if {int.from_bytes(data[at : at + 2], "big"), int.from_bytes(data[at + 2 : at + 4], "big")} & set(ports):
            yield Packet(time_ns, data, wire)


def _capture(ports: Collection[int]) -> LiveCapture:
    """Open the capture, with a filter if libpcap is here to compile it: others may be busy on loopback."""
    try:
        return LiveCapture("lo", bpf=" or ".join(f"tcp port {port}" for port in ports))
    except UsageError:
        return LiveCapture("lo")


def main(ports: Collection[int], path: Path) -> int:
    try:
        capture = _capture(ports)
    except (UnreadableInput, UsageError) as error:
        print(error, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: capture.stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    packets = [packet for item in capture if isinstance(item, PacketBatch) for packet in _of_interest(item, ports)]
    path.write_bytes(pcap(packets))
    return DROPPED if capture.dropped else 0


if __name__ == "__main__":
    sys.exit(main([int(port) for port in sys.argv[1].split(",")], Path(sys.argv[2])))

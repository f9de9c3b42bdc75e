"""`-D`: the interfaces that can be captured, by number and name."""

from __future__ import annotations

import sys
from argparse import Namespace

from kshark.capture.network_interfaces import ANY, NetworkInterface, interfaces, name_of
from kshark.output.sink import Sink
from kshark.output.spans import DIM, PLAIN, VALUE, WARN, Line
from kshark.units import safe

__all__ = ["name_of", "print_interfaces"]


def print_interfaces(args: Namespace) -> int:
    """Print a line for each interface: number, name, state, addresses."""
    sink = Sink(sys.stdout)
    found = interfaces()
    if args.format == "json":
        sink.json(
            {"number": number, "name": one.name, "state": one.state, "loopback": one.is_loopback,
             "addresses": [*one.addresses]}
            for number, one in enumerate(found, 1)
        )  # fmt: skip
        return 0
    width = max(len(one.name) for one in found)
    sink.lines(_line(number, one, width) for number, one in enumerate(found, 1))
    return 0


def _line(number: int, interface: NetworkInterface, width: int) -> Line:
    """Return `1. eth0  up  192.0.2.2, fd00::2`."""
    about = ", ".join(interface.addresses)
    if interface.name == ANY:
        about = "all interfaces"
    elif interface.is_loopback:
        about = f"loopback, {about}" if about else "loopback"
    return [
        (f"{number}. ", DIM),
        (f"{safe(interface.name):<{width}}", VALUE),
        (f"  {interface.state}", PLAIN if interface.state == "up" else WARN),
        (f"  {about}" if about else "", DIM),
    ]

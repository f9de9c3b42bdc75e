"""Hosts for clients: network namespaces behind a bridge, on which brokers have addresses.

Each host has an address of its own, so captures show several client hosts. A host's packets can be dropped in one
direction between the two places of capture: on the bridge (the brokers' side) and on the host's interface (the
clients'). Needs the right to create network devices (root, or CAP_NET_ADMIN), `ip`, `ss`, `nft` and `tcpdump`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.broker.server import NoBroker

BRIDGE: Final = "ksevents"
#: Brokers have the first addresses of the network, clients these.
HOSTS: Final = (11, 12, 13, 14, 15)
_NET: Final = "10.98.0."
_TABLE: Final = ("bridge", BRIDGE)
#: The brokers' host, behind the place of capture.
_HOST_TABLE: Final = ("inet", BRIDGE)
_CLONE_NEWNET: Final = 0x40000000
_TOOLS: Final = ("ip", "ss", "nft", "tcpdump")
_STOP_SECONDS: Final = 10


def address(number: int) -> str:
    """Return the IP address of a broker (1, 2) or of a client's host (11 to 15)."""
    return f"{_NET}{number}"


def namespace(host: int) -> str:
    """Return the name of a host's network namespace."""
    return f"{BRIDGE}-{host}"


@contextlib.contextmanager
def network(brokers: int) -> Iterator[None]:
    """Provide the bridge and the hosts. Raises NoBroker if this machine cannot have them."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise NoBroker(f"clients on hosts of their own need {', '.join(missing)} (Debian: iproute2, nftables, tcpdump)")
    _remove()  # what a run left that was killed
    try:
        try:
            _make(brokers)
        except subprocess.CalledProcessError as error:
            raise NoBroker(f"no network of our own can be made here, it takes root: {error}") from None
        yield
    finally:
        _remove()


def _make(brokers: int) -> None:
    _run("ip", "link", "add", BRIDGE, "type", "bridge")
    for number in range(1, brokers + 1):
        _run("ip", "address", "add", f"{address(number)}/24", "dev", BRIDGE)
    _run("ip", "link", "set", BRIDGE, "up")
    for host in HOSTS:
        inside = ("ip", "-n", namespace(host))
        _run("ip", "netns", "add", namespace(host))
        _run("ip", "link", "add", port(host), "type", "veth", "peer", "name", "eth0", "netns", namespace(host))
        _run("ip", "link", "set", port(host), "master", BRIDGE, "up")
        _run(*inside, "address", "add", f"{address(host)}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run(*inside, "link", "set", device, "up")
        _run(*inside, "route", "add", "default", "via", address(1))
    for table in (_TABLE, _HOST_TABLE):
        _run("nft", "add", "table", *table)
        for hook in ("input", "output"):
            _run("nft", "add", "chain", *table, hook, f"{{ type filter hook {hook} priority 0; }}")


def _remove() -> None:
    for host in HOSTS:
        _run("ip", "netns", "delete", namespace(host), check=False)
        _run("ip", "link", "delete", port(host), check=False)
    _run("ip", "link", "delete", BRIDGE, check=False)
    for table in (_TABLE, _HOST_TABLE):
        _run("nft", "delete", "table", *table, check=False)


def _run(*command: str, check: bool = True) -> None:
    subprocess.run(command, check=check, stdout=subprocess.DEVNULL, stderr=None if check else subprocess.DEVNULL)


def port(host: int) -> str:
    """Return the name of the bridge's interface towards a host."""
    return f"{BRIDGE}{host}"


# -- packets that are lost


def lose(hosts: Collection[int], towards: str) -> None:
    """Drop all packets of these hosts "towards" the "broker" or the "client".

    The brokers' side of the capture sees packets towards clients and none towards brokers, the clients' side the
    opposite.
    """
    field, hook = ("saddr", "input") if towards == "broker" else ("daddr", "output")
    _run("nft", "add", "rule", *_TABLE, hook, f"ip {field} {{ {', '.join(map(address, hosts))} }} drop")


def ignore(host: int, port: int) -> None:
    """Drop all packets from a host's port, after both places of capture."""
    _run("nft", "add", "rule", *_HOST_TABLE, "input", f"ip saddr {address(host)} tcp sport {port} drop")


def forget(host: int, port: int) -> None:
    """End the broker's side of a connection without a packet: it answers the next one from the host with RST."""
    _run("nft", "add", "rule", *_HOST_TABLE, "output", f"ip daddr {address(host)} tcp dport {port} drop")
    _run("ss", "--kill", "--tcp", "dst", f"{address(host)}:{port}")
    _run("nft", "flush", "chain", *_HOST_TABLE, "output")


def lose_nothing() -> None:
    """Let all packets arrive again."""
    for table in (_TABLE, _HOST_TABLE):
        _run("nft", "flush", "table", *table)


# -- captures


@contextlib.contextmanager
def recorded(interface: str, path: Path) -> Iterator[None]:
    """Record an interface's TCP packets while the context lasts. Raises NoBroker if nothing can be recorded."""
    command = ("tcpdump", "-i", interface, "-U", "-B", "16384", "-s", "262144", "-w", str(path), "tcp")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    first = process.stderr.readline()
    if "listening on" not in first:
        raise NoBroker(f"nothing can be recorded here: {first.strip()}")
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        last = process.communicate(timeout=_STOP_SECONDS)[1]
        assert "\n0 packets dropped by kernel" in last, last


# -- sockets and processes on a host


def on_host(host: int, command: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs another one on a host; the process keeps its id."""
    return ("ip", "netns", "exec", namespace(host), *command)


def connect(host: int, target: tuple[str, int], *, seconds: float = 5.0, receive_buffer: int = 0) -> socket.socket:
    """Return a socket of a host that is connected to an address and port. Raises OSError.

    A thread can be in another namespace than its process (setns(2)), and a socket stays in the one it was made in.
    """
    made: list[socket.socket] = []

    def make() -> None:
        inside = os.open(f"/run/netns/{namespace(host)}", os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(inside, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(inside)
        made.append(socket.socket())

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    (connection,) = made
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(seconds)
    try:
        connection.connect(target)
    except OSError:
        connection.close()
        raise
    return connection


def is_open(target: tuple[str, int]) -> bool:
    """True if somebody accepts connections there; asked from the brokers' host, so it is not in the capture."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(target) == 0

"""The URL of `--master`, checked before a JVM starts, because Spark retries a wrong one for minutes."""

from __future__ import annotations

import re
import socket
from typing import Final

from kshark.errors import UsageError

#: All cores, and a task whose process was killed is tried three times more.
LOCAL: Final = "local[*,4]"
#: The pattern of each kind of master, by the form that errors show.
_KINDS: Final = {
    "local[N]": r"local(\[(\*|\d+)(,\s*\d+)?\])?",
    "local-cluster[WORKERS,CORES,MB]": r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]",
    "spark://HOST:PORT": r"spark://[^/:,]+:\d+(,[^/:,]+:\d+)*",
    "yarn": r"yarn",
    "k8s://https://HOST:PORT": r"k8s://\S+",
    "sc://HOST:PORT": r"sc://[^/:]+(:\d+)?(/\S*)?",
}
#: Time limit for a port to accept a connection.
_PATIENCE_S: Final = 3.0
_CONNECT_PORT: Final = 15002


def is_here(master: str) -> bool:
    """True if its workers are threads and processes of this program, with its Python and its files."""
    return re.fullmatch(_KINDS["local[N]"], master) is not None


def is_connect(master: str) -> bool:
    """True if it is a Spark Connect server, which needs no JVM here."""
    return master.startswith("sc://")


def check(master: str) -> None:
    """Raise UsageError for a URL of unknown kind, and for a host and port where nothing answers."""
    if not any(re.fullmatch(pattern, master) for pattern in _KINDS.values()):
        raise UsageError(f'"{master}" is not a Spark master; write one of {", ".join(_KINDS)}')
    ends = _ends(master)
    if ends and not any(_answers(host, port) for host, port in ends):
        raise UsageError(
            f"nothing answers at {master}; is Spark running there? Without --master kshark uses this machine"
        )


def _ends(master: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of the master."""
    if master.startswith("spark://"):
        pairs = [end.rsplit(":", 1) for end in master.removeprefix("spark://").split(",")]
        return [(host, int(port)) for host, port in pairs]
    if is_connect(master):
        host, _, port = master.removeprefix("sc://").partition("/")[0].partition(":")
        return [(host, int(port or _CONNECT_PORT))]
    return []


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _PATIENCE_S).close()
    except OSError:
        return False
    return True

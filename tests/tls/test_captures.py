"""A broker's SSL listeners, captured with the secrets of some clients: equal to the broker's request log, and to what
tshark reads."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import kshark
from kshark.model import Event, Message
from kshark.pipeline import Engine, Options
from tests.shared import shared
from tests.witness import compare
from tests.witness.reasons import ENCRYPTED, UNEXPLAINED


def capture(kind: str) -> Path:
    return shared("captures", "kafka-4", f"security-tls.{kind}")


def keys(kind: str) -> bytes:
    """The secrets beside the pcap; the pcapng has its own."""
    return capture("keys").read_bytes() if kind == "pcap" else b""


@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_every_logged_exchange_is_read_as_the_broker_logged_it(kind: str) -> None:
    result = compare(capture(kind), keys(kind))
    assert (result.equal, result.different) == (80, [])
    assert UNEXPLAINED not in result.reasons, (result.only_logged, result.only_wire)
    assert result.weird == Counter()
    hidden = sum(count for (_, reason), count in result.only_logged.items() if reason == ENCRYPTED)
    assert hidden == 40  # of Java's clients, which logged no secrets


def messages_of(kind: str, sizes: int = 1) -> list[Event]:
    from kshark.capture import open_captures

    pages = Engine(Options(tls_keys=keys(kind))).pages(open_captures([capture(kind)] * sizes))
    return [event for page in pages for event in page if isinstance(event, Message)]


def test_a_key_log_beside_the_capture_and_secrets_inside_it_give_the_same() -> None:
    assert messages_of("pcap") == messages_of("pcapng")
    assert len(messages_of("pcap")) == 173


def test_secrets_inside_a_capture_survive_a_merge() -> None:
    assert len(messages_of("pcapng", 2)) == 173


def test_the_python_face_takes_a_key_log() -> None:
    read = [*kshark.read(capture("pcap"), tls_keys=capture("keys"))]
    assert len(read) == 173
    assert [*kshark.check(capture("pcap"), tls_keys=capture("keys"))] == [*kshark.check(capture("pcapng"))]
    with pytest.raises(kshark.UsageError, match="no secrets of TLS"):
        [*kshark.read(capture("pcap"), tls_keys=__file__)]


@pytest.mark.tshark
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_reads_the_same_messages_in_the_same_packets() -> None:
    ports = [word for port in (21403, 21404) for word in ("-d", f"tls.port=={port},kafka")]
    fields = ["-T", "fields", "-e", "frame.number", "-e", "kafka.correlation_id"]
    command = [
        "tshark",
        "-r",
        str(capture("pcap")),
        "-o",
        f"tls.keylog_file:{capture('keys')}",
        *ports,
        "-Y",
        "kafka.correlation_id",
        *fields,
    ]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    theirs = sorted(
        (int(frame), int(one)) for frame, ids in (line.split("\t") for line in lines) for one in ids.split(",")
    )
    ours = sorted(
        (it.packet, it.correlation_id) for it in messages_of("pcap") if isinstance(it, Message) and it.packet != 460
    )
    assert ours == theirs  # 460 is a request in clear to a listener of TLS

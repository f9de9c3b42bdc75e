"""How much of the truth the captures hold, as answers to the questions that a reader has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kshark.output.catalogue import CODES
from kshark.output.units import counted, number, size
from kshark.report.facts import Report

#: Weirds that say in their own words what is amiss: packets missing of which no gap tells, clocks that may differ.
_AMISS: Final = (
    "PACKETS_DROPPED",
    "CAPTURE_CUT",
    "COMPRESSED_CUT",
    "CAPTURE_UNREAD",
    "SNAP_LENGTH_CUT",
    "CAPTURES_OVERLAP",
)


class Quality(NamedTuple):
    """One answer: `good` where nothing is wrong."""

    good: bool
    text: str


def quality_of(report: Report) -> list[Quality]:
    """The good answers are given too: they say what was looked at."""
    return [*_connections(report), *_messages(report)]


def _connections(report: Report) -> Iterator[Quality]:
    services = {one.service: one for one in report.connections}
    kafka, tls = services.get("kafka"), services.get("tls")
    gaps = sum(one.gaps for one in report.gaps)
    if gaps:
        reasons = ", ".join(f"{one.reason} {number(one.gaps)}" for one in report.gaps)
        yield Quality(False, f"{counted(gaps, 'gap')} ({reasons}), {size(sum(one.bytes for one in report.gaps))} lost")
    else:
        yield Quality(True, "No gaps: every byte of every connection is there")
    if kafka is not None and kafka.older:
        yield Quality(
            False, f"{number(kafka.older)} of {counted(kafka.connections, 'Kafka connection')} began before the capture"
        )
    elif kafka is not None:
        yield Quality(True, "Every Kafka connection is there from its beginning")
    if tls is not None:
        yield Quality(False, f"{counted(tls.connections, 'TLS connection')} not read ({size(tls.bytes)})")
    else:
        yield Quality(True, "No TLS: nothing was hidden from the decoder")


def _messages(report: Report) -> Iterator[Quality]:
    times = {one.code: one.times for one in report.weirds}
    if found_again := times.get("RESYNC"):
        yield Quality(False, f"{counted(found_again, 'message')} found again after a gap")
    else:
        yield Quality(True, "No message had to be searched for")
    if twice := times.get("DUPLICATE_PACKETS"):
        yield Quality(False, f"{counted(twice, 'connection')} captured twice, and counted once")
    else:
        yield Quality(True, "Nothing was captured twice")
    for code in _AMISS:
        if code in times:
            yield Quality(False, CODES[code].text)

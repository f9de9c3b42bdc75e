"""The completeness of the captures, as answers to a reader's questions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kshark.output.catalogue import CODES
from kshark.report.facts import Report
from kshark.units import counted, number, safe, size

#: Most files that are named.
_NAMED: Final = 8
#: Weirds whose text describes a defect of the capture: missing packets without a gap, clocks that may differ.
_AMISS: Final = (
    "PACKETS_DROPPED",
    "CAPTURE_CUT",
    "COMPRESSED_CUT",
    "CAPTURE_UNREAD",
    "SNAP_LENGTH_CUT",
    "CAPTURES_OVERLAP",
)


class Quality(NamedTuple):
    """One answer: `good` if nothing is wrong."""

    good: bool
    text: str


def quality_of(report: Report) -> list[Quality]:
    """Return all answers, also the good ones: they show what was checked."""
    return [*_files(report), *_connections(report), *_messages(report)]


def _files(report: Report) -> Iterator[Quality]:
    for one in report.unread[:_NAMED]:
        yield Quality(False, f"{safe(one.file)} could not be read: {safe(one.reason)}")
    if len(report.unread) > _NAMED:
        yield Quality(False, f"{number(len(report.unread) - _NAMED)} more files could not be read: see report.json")


def _connections(report: Report) -> Iterator[Quality]:
    services = {entry.service: entry for entry in report.connections}
    kafka, tls = services.get("kafka"), services.get("tls")
    gaps = sum(entry.gaps for entry in report.gaps)
    if gaps:
        reasons = ", ".join(f"{entry.reason} {number(entry.gaps)}" for entry in report.gaps)
        yield Quality(
            False, f"{counted(gaps, 'gap')} ({reasons}), {size(sum(entry.bytes for entry in report.gaps))} lost"
        )
    else:
        yield Quality(True, "No gaps: every byte of every connection is in the capture")
    if kafka is not None and kafka.older:
        yield Quality(
            False, f"{number(kafka.older)} of {counted(kafka.connections, 'Kafka connection')} began before the capture"
        )
    elif kafka is not None:
        yield Quality(True, "Every Kafka connection is complete from its beginning")
    if tls is not None:
        yield Quality(False, f"{counted(tls.connections, 'TLS connection')} not read ({size(tls.bytes)})")
    else:
        yield Quality(True, "No TLS: the decoder could read everything")


def _messages(report: Report) -> Iterator[Quality]:
    times = {weird.code: weird.times for weird in report.weirds}
    if resynced := times.get("RESYNC"):
        yield Quality(False, f"{counted(resynced, 'message')} found by searching after a gap")
    else:
        yield Quality(True, "Every message boundary is certain")
    if twice := times.get("DUPLICATE_PACKETS"):
        yield Quality(False, f"{counted(twice, 'connection')} captured twice, but counted once")
    else:
        yield Quality(True, "No connection was captured twice")
    for code in _AMISS:
        if code in times:
            yield Quality(False, CODES[code].text)

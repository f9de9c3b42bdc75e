"""The log of a case: what its script did and when; beside it the events that kshark finds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

#: The events of the catalogue, section 6.9.
EVENTS: Final = frozenset(
    {
        *("BROKER_SILENT", "BROKER_DOWN", "REQUEST_OVERDUE", "MEMBER_STOPPED_FETCHING", "TOPIC_DELETED_IN_USE"),
        *("SESSION_TABLE_FULL", "THROTTLED", "SASL_SESSION_EXPIRED", "TLS_HANDSHAKE_FAILED", "IDLE_CONNECTION_LOST"),
        *("RETRY_WITHOUT_REMEDY", "ENDPOINT_UNREACHABLE", "CLOSED_INSTEAD_OF_ANSWER", "NETWORK_OUTAGE"),
        *("CLIENT_NOT_READING", "DEAD_LETTER_LOST", "PROXY_HEADER_REFUSED"),
    }
)
#: How far an event may begin before or after the time at which its cause is logged, to be the same one.
_NEAR_NS: Final = 3_000_000_000
_MS: Final = 1_000_000
_S: Final = 1_000_000_000
#: How much a time may be off.
TOLERANCE_MS: Final = 200


@dataclass(frozen=True, slots=True)
class Truth:
    """An event that happened. Times in ns of the machine's clock, which is the capture's; None where unknown.

    `who`: "broker" (address:port), "client" (a client id or address), "topic", "group". `by`: what the script did.
    `optional`: a capture may show it, or not.
    """

    event: str
    from_ns: int
    to_ns: int | None
    who: Mapping[str, str]
    by: str
    optional: bool = False

    def line(self) -> str:
        more = {"optional": True} if self.optional else {}
        fields = {"event": self.event, "from_ns": self.from_ns, "to_ns": self.to_ns, **self.who, "by": self.by, **more}
        return json.dumps(fields) + "\n"


@dataclass(frozen=True, slots=True)
class Event:
    """An event that kshark reports, and where it says that it happened."""

    code: str
    from_ns: int
    to_ns: int | None
    who: Mapping[str, str]
    verdict: str


@dataclass(frozen=True, slots=True)
class Pair:
    """An event that happened and what kshark reports of it; one of them may be None."""

    truth: Truth | None
    event: Event | None

    @property
    def from_ms(self) -> int | None:
        """How many ms too late the reported event begins."""
        return None if self.truth is None or self.event is None else (self.event.from_ns - self.truth.from_ns) // _MS

    @property
    def to_ms(self) -> int | None:
        """How many ms too late the reported event ends; None if one of them has no end."""
        if self.truth is None or self.event is None or self.truth.to_ns is None or self.event.to_ns is None:
            return None
        return (self.event.to_ns - self.truth.to_ns) // _MS

    @property
    def result(self) -> str:
        if self.truth is None:
            return "FALSE"
        if self.event is None:
            return "not reported (optional)" if self.truth.optional else "MISSING"
        late = [abs(difference) for difference in (self.from_ms, self.to_ms) if difference is not None]
        return "ok" if max(late) <= TOLERANCE_MS else "LATE OR EARLY"


def read_truth(path: Path) -> list[Truth]:
    """Return the events of a log in the order of their time."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    fields = {"event", "from_ns", "to_ns", "by", "optional"}
    truths = [
        Truth(
            *(row["event"], row["from_ns"], row["to_ns"]),
            {name: value for name, value in row.items() if name not in fields},
            *(row["by"], row.get("optional", False)),
        )
        for row in rows
    ]
    return sorted(truths, key=lambda truth: truth.from_ns)


def events_of(findings: Iterable[Mapping[str, Any]]) -> list[Event]:
    """Return the events among the JSON lines of `kshark check -T json`, without those that another event explains."""
    return [
        Event(
            finding["code"],
            finding.get("from_ns") or finding["time_ns"],
            finding.get("until_ns"),
            {
                name: finding[field]
                for name, field in (("broker", "broker"), ("client", "client"), ("client_id", "client_id"))
                if finding.get(field)
            },
            finding["verdict"],
        )
        for finding in findings
        if finding.get("code") in EVENTS and finding.get("event_code") is None
    ]


def paired(truths: Sequence[Truth], events: Sequence[Event]) -> list[Pair]:
    """Pair each event that happened with the nearest one reported of the same kind and place.

    A reported event may be several that happened, if it lasts from the first of them to the last.
    """
    left = [*events]
    pairs: list[Pair] = []
    for truth in truths:
        near = [event for event in left if _is_about(truth, event)]
        event = min(near, key=lambda event: abs(event.from_ns - truth.from_ns), default=None)
        if event is not None:
            left.remove(event)
            pairs.append(Pair(truth, event))
        elif not _joins(pairs, truth):
            pairs.append(Pair(truth, None))
    return [*pairs, *(Pair(None, event) for event in left)]


def _joins(pairs: list[Pair], truth: Truth) -> bool:
    """Add what happened to an earlier pair whose event lasts until then; return False if there is none."""
    for at, pair in enumerate(pairs):
        if pair.truth is not None and pair.event is not None and _holds(pair.event, truth):
            pairs[at] = Pair(replace(pair.truth, to_ns=truth.to_ns or truth.from_ns), pair.event)
            return True
    return False


def _holds(event: Event, truth: Truth) -> bool:
    """True if what happened is inside a longer event about it."""
    late = TOLERANCE_MS * _MS
    if not _is_about(truth, event):
        return False
    return event.to_ns is not None and event.from_ns - late <= truth.from_ns <= event.to_ns + late


def _is_about(truth: Truth, event: Event) -> bool:
    """True if the event has the same code, a time in common more or less, and nobody else's name."""
    if event.code != truth.event:
        return False
    ends_ns, last_ns = event.to_ns or event.from_ns, truth.to_ns or truth.from_ns
    if ends_ns < truth.from_ns - _NEAR_NS or event.from_ns > last_ns + _NEAR_NS:
        return False
    address = event.who.get("client", "")
    names = {address, address.rpartition(":")[0], event.who.get("client_id", "")}
    broker, client = truth.who.get("broker"), truth.who.get("client")
    if broker is not None and event.who.get("broker", broker) != broker:
        return False
    return client is None or names == {""} or client in names


def lines(pairs: Iterable[Pair], start_ns: int) -> Iterator[str]:
    """Yield a line for each pair; times in seconds since the capture's start, differences in ms."""
    for pair in pairs:
        code = pair.truth.event if pair.truth is not None else pair.event.code if pair.event is not None else ""
        parts = [f"  {pair.result:24} {code:24}"]
        if pair.truth is not None:
            parts.append(f"{_span(pair.truth, start_ns)} {_names(pair.truth.who)} ({pair.truth.by})")
        if pair.event is not None:
            parts.append(f"| {_span(pair.event, start_ns)} {_names(pair.event.who)} {pair.event.verdict}")
        if pair.from_ms is not None:
            parts.append(f"| {pair.from_ms:+} ms" + (f", {pair.to_ms:+} ms" if pair.to_ms is not None else ""))
        yield " ".join(parts)


def _span(what: Truth | Event, start_ns: int) -> str:
    end = "" if what.to_ns is None else f" to {(what.to_ns - start_ns) / _S:.3f}"
    return f"{(what.from_ns - start_ns) / _S:.3f}{end} s"


def _names(who: Mapping[str, str]) -> str:
    return " ".join(f"{name} {value}" for name, value in who.items())

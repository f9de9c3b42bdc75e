"""The profile of one capture: all that is compared, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from kshark import limits
from kshark.analysis.results.observed import OTHERS
from kshark.diff.blocks import BlockCounts, BlockLatencies


class FindingKey(NamedTuple):
    """The properties of findings that are compared. `role`: the blamed party; empty if nobody is blamed. `software`:
    the name of a blamed client's software, without its version."""

    code: str
    verdict: str
    cause: str | None
    role: str
    software: str

    @property
    def party(self) -> str:
        return f"{self.role} {self.software}".rstrip()


class FirstSeen(NamedTuple):
    """The first finding of its kind."""

    packet: int
    argument: str


#: Requests by API key, by API key and software, and all of them; and what comes of them, by API key. Errors also by
#: error code. The names are the first element of the keys in Profile.counts.
REQUESTS = "requests"
OF_SOFTWARE = "requests of software"
ALL = ("all requests",)
ANSWERS = "answers"
ERRORS = "errors"
UNANSWERED = "unanswered"
THROTTLED = "throttled"
FINDINGS = "findings"
#: ShareFetches that opened a session again, and heartbeats with a new assignment.
REOPENED = ("reopened",)
HEARTBEATS = ("heartbeats",)
REBALANCES = ("rebalances",)


class Profile(Struct):
    """Counts and facts of one capture.

    `software`: requests by name of the client's software and version. `versions`: by name and API key, the requests by
    API version. `releases`: answers to ApiVersions by the releases that they fit. `tested`: how often each rule with a
    number was put to the test, by its code; `unproved`: how often that was not decided. `remarks`: sentences about what
    of the capture cannot be trusted. `why_not`: why nothing of it can be compared; empty if something can. `times`:
    those of the first and the last message. `has_clock`: its times are real.
    """

    name: str
    counts: BlockCounts = field(default_factory=BlockCounts)
    work: BlockLatencies = field(default_factory=BlockLatencies)
    wait: BlockLatencies = field(default_factory=BlockLatencies)
    first: dict[FindingKey, FirstSeen] = field(default_factory=dict)
    software: dict[str, Counter[str]] = field(default_factory=dict)
    versions: dict[tuple[str, int], Counter[int]] = field(default_factory=dict)
    releases: Counter[str] = field(default_factory=Counter)
    tested: Mapping[str, int] = field(default_factory=dict)
    unproved: Mapping[str, int] = field(default_factory=dict)
    bytes: list[int] = field(default_factory=lambda: [0, 0])
    times: tuple[int, int] | None = None
    has_clock: bool = True
    remarks: list[str] = field(default_factory=list)
    why_not: str = ""

    @property
    def requests(self) -> int:
        return self.counts.total(ALL)

    @property
    def seconds(self) -> float:
        """The time between the first and the last message; 0 if it is unknown."""
        return (self.times[1] - self.times[0]) / 1e9 if self.times and self.has_clock else 0.0

    @property
    def apis(self) -> set[int]:
        """The API keys of its requests."""
        return {key for (key,) in self.counts.keys(REQUESTS) if isinstance(key, int)}

    def name_of(self, software: str) -> str:
        """Return the name of a client's software and its versions, if they are few: `librdkafka 2.11.0`."""
        versions = [version for version in self.software.get(software, ()) if version]
        return f"{software} {' and '.join(versions)}" if 0 < len(versions) <= 2 else software

    def count_software(self, name: str, version: str, api_key: int, api_version: int) -> None:
        """Count a request of a client's software; beyond limits.STATISTICS_ROWS together."""
        if name not in self.software and len(self.software) >= limits.STATISTICS_ROWS:
            name = OTHERS
        of_name = self.software.setdefault(name, Counter())
        of_name[version if version in of_name or len(of_name) < limits.STATISTICS_ROWS else OTHERS] += 1
        key = (name, api_key)
        if key in self.versions or len(self.versions) < limits.STATISTICS_ROWS:
            self.versions.setdefault(key, Counter())[api_version] += 1

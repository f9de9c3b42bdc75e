"""What a capture holds beside its findings: how much could be judged, what it covers, and which refusals no finding
explains."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from kshark import limits
from kshark.analysis.results.error_codes import ErrorCodes, PlacedCode
from kshark.analysis.results.ordinary import cause_of
from kshark.analysis.results.tried import TRIES, Tries
from kshark.analysis.rules import BOOK
from kshark.analysis.rules.rule import Read
from kshark.analysis.runners.coverage import Coverage, RuleCoverage
from kshark.endpoints import host_of
from kshark.model import Closed, Event, Exchange, Finding, Flow, Gap, Message, Weird
from kshark.registry import Registry

#: What stands in a table for all rows beyond its limit.
OTHERS: Final = "(others)"


class Refusal(NamedTuple):
    """An error code that a client was answered; `client` is its client id, or its address where it gives none."""

    api: str
    error_code: int
    client: str


class Observed(Struct):
    """Counts of a capture or of a part of it; parts are added by `join`.

    `judged` are exchanges of APIs that rules are about. `answered` are all error codes but 0, at any depth of any
    answer, `explained` those that a finding explains. `since_ns` to `until_ns` is the time of its connections,
    `brokers` are the addresses that spoke Kafka,
    `duplicates` packets left out because they were captured twice. `coverage`: how often rules were put to the test, if
    that was counted. Of the exchanges `orphans` lack their request, `one_way` ask for no answer, `unanswered` have
    none; `connections` speak Kafka. `tried` is what else puts rules about bytes to the test, if that was counted."""

    sessions: int = 0
    exchanges: int = 0
    gaps: int = 0
    judged: int = 0
    answered: Counter[Refusal] = field(default_factory=Counter)
    explained: Counter[Refusal] = field(default_factory=Counter)
    since_ns: int | None = None
    until_ns: int | None = None
    brokers: set[str] = field(default_factory=set)
    tls_connections: int = 0
    duplicates: int = 0
    coverage: Coverage | None = None
    orphans: int = 0
    one_way: int = 0
    unanswered: int = 0
    connections: int = 0
    tried: Counter[Read] = field(default_factory=Counter)

    @property
    def read(self) -> dict[Read, int]:
        """How much was read that puts rules about bytes to the test (kshark.analysis.rules.rule.Read)."""
        requests = self.exchanges - self.orphans
        due = requests - self.one_way
        answers = due - self.unanswered
        return {
            "frames": requests,
            "messages": requests + answers,
            "requests": requests,
            "answers": answers,
            "matched": answers,
            "due": due,
            "one_way": self.one_way,
            "connections": self.connections,
            **self.tried,
        }

    def rules(self) -> list[RuleCoverage]:
        """How often each rule was put to the test; none where that was not counted."""
        return [] if self.coverage is None else self.coverage.rules(self.read)

    def connection(self, flow: Flow) -> None:
        """A connection that is over, with all that became known of it."""
        self._reaches(flow.first_time_ns, flow.last_time_ns)
        self.connections += flow.service == "kafka"
        if flow.service == "kafka" and len(self.brokers) < limits.BROKERS:
            self.brokers.add(flow.broker)
        self.tls_connections += flow.service == "tls"

    def weird(self, weird: Weird) -> None:
        if weird.code == "DUPLICATE_PACKETS":
            self.duplicates += weird.times

    def join(self, other: Observed) -> None:
        """Adds what was counted elsewhere: in other pages, or of other connections or members."""
        self.sessions += other.sessions
        self.exchanges += other.exchanges
        self.gaps += other.gaps
        self.judged += other.judged
        self.orphans += other.orphans
        self.one_way += other.one_way
        self.unanswered += other.unanswered
        self.connections += other.connections
        self.tried.update(other.tried)
        self.answered.update(other.answered)
        self.explained.update(other.explained)
        if other.since_ns is not None and other.until_ns is not None:
            self._reaches(other.since_ns, other.until_ns)
        self.brokers |= other.brokers
        self.tls_connections += other.tls_connections
        self.duplicates += other.duplicates
        if other.coverage is not None:
            self.coverage = self.coverage or Coverage()
            self.coverage.join(other.coverage)

    def _reaches(self, since_ns: int, until_ns: int) -> None:
        self.since_ns = since_ns if self.since_ns is None else min(self.since_ns, since_ns)
        self.until_ns = until_ns if self.until_ns is None else max(self.until_ns, until_ns)

    def unexplained(self) -> list[dict[str, Any]]:
        """By API and error code, most first: how often a client was refused without a word that says why, and which
        clients."""
        return [row for row in self._left() if cause_of(row["api"], row["error_code"]) is None]

    def ordinary(self) -> list[dict[str, Any]]:
        """The same of refusals that say themselves why they came, and that are nobody's fault; `cause` is why."""
        causes = [(row, cause_of(row["api"], row["error_code"])) for row in self._left()]
        return [{**row, "cause": cause} for row, cause in causes if cause is not None]

    def _left(self) -> list[dict[str, Any]]:
        """Refusals without a finding."""
        rows: dict[tuple[str, int], Counter[str]] = {}
        for refusal, count in (self.answered - self.explained).items():
            rows.setdefault(refusal[:2], Counter())[refusal.client] += count
        ordered = sorted(rows.items(), key=lambda row: (-row[1].total(), row[0]))
        return [
            {"api": api, "error_code": code, "count": clients.total(), "clients": sorted(clients)}
            for (api, code), clients in ordered
        ]

    def covered(self) -> dict[str, Any]:
        """What there was to be seen."""
        return {
            "since_ns": self.since_ns,
            "until_ns": self.until_ns,
            "brokers": sorted(self.brokers),
            "tls_connections": self.tls_connections,
            "duplicates": self.duplicates,
        }


_JUDGED: Final = BOOK.apis
_REFUSED_WITH: Final = {code: rule.refused_with for code, rule in BOOK.weirds.items() if rule.refused_with}
#: Where an answer stands: connection, packet, correlation id.
_Place = tuple[Any, Any, Any]


class Observer:
    """Takes the pages of a capture, and the findings in them; `observed` is what they hold.

    A finding explains error codes of the exchange that it stands at, at its request or its answer: the answer's own
    ones; those of the partition that it is about, if it is about one; and all of them, where its rule is about
    exchanges and not about a machine. One that stands elsewhere, at a connection's end, say, explains none, and no more
    does one that is about bytes, but for the codes with which brokers refuse just these (Rule.refused_with), of APIs
    that no other rule is about. `coverage`: what only that asks for is counted."""

    def __init__(self, registry: Registry, *, coverage: bool = False) -> None:
        self.observed = Observed()
        self._tries: Mapping[Any, Tries] = TRIES if coverage else {}
        self._codes = ErrorCodes(registry)
        #: Refusals that a finding may yet explain, of APIs that rules are about; the oldest are given up.
        self._open: OrderedDict[_Place, list[tuple[PlacedCode, Refusal]]] = OrderedDict()

    def page(self, page: Iterable[Event]) -> None:
        """Events of the time line; before the findings that they led to."""
        tests, observed, apis, tries = self._codes.tests, self.observed, _JUDGED, self._tries
        exchanges = judged = 0
        for event in page:
            if type(event) is Message:
                continue  # half of all events: tested early, so that no further test is needed
            if type(event) is Exchange:
                exchanges += 1
                request = event.request
                if request is None:
                    observed.orphans += 1
                    continue
                api_key, response = request.api_key, event.response
                if api_key in apis:
                    judged += 1
                if tries and api_key in tries:
                    tries[api_key](request, response, observed.tried)
                if response is None:
                    observed.one_way += event.outcome == "one_way"
                    observed.unanswered += event.outcome != "one_way"
                elif (tests.get(type(response.body)) or self._codes.learn(response))(response.body):
                    self._refused(request, response)
            elif type(event) is Closed:
                observed.connection(event.flow)
            elif type(event) is Gap:
                observed.gaps += 1
            elif type(event) is Weird:
                observed.weird(event)
        observed.exchanges += exchanges
        observed.judged += judged

    def answer(self, request: Message, response: Message) -> None:
        """One answer, for who counts the rest elsewhere."""
        body = response.body
        if (self._codes.tests.get(type(body)) or self._codes.learn(response))(body):
            self._refused(request, response)

    def refusals(self, api_key: int, refusals: Iterable[Refusal], weirds: Iterable[str]) -> None:
        """Those of one answer, whose body was read elsewhere, with the weirds of both messages; no finding explains
        them here."""
        known = [self._known(refusal) for refusal in refusals]
        self.observed.answered.update(known)
        if api_key not in _JUDGED:
            self._explain_odd(known, weirds)

    def explain(self, findings: Iterable[Finding]) -> None:
        """Findings, of exchanges that were taken."""
        for finding in findings:
            about = finding.witness[-1]
            place = about.flow, about.response_packet, about.correlation_id
            left = (
                self._open.pop(place, None) if finding.packet in (about.request_packet, about.response_packet) else None
            )
            if left is not None:
                explained = [one for one in left if _explains(finding, one[0])]
                self.observed.explained.update(refusal for _, refusal in explained)
                if len(explained) < len(left):
                    self._open[place] = [one for one in left if one not in explained]

    def _refused(self, request: Message, response: Message) -> None:
        api_key, version, api = request.api_key, request.version, request.api
        assert isinstance(api_key, int)  # its answer was read
        assert isinstance(version, int)
        assert isinstance(api, str)
        client = request.client_id or host_of(request.client)
        codes = [
            (placed, self._known(Refusal(api, placed.code, client)))
            for placed in self._codes.placed(response.body, api_key, version)
        ]
        self.observed.answered.update(refusal for _, refusal in codes)
        if api_key in _JUDGED:
            self._open[response.flow, response.packet, response.correlation_id] = codes
            if len(self._open) > limits.REFUSALS:
                self._open.popitem(last=False)
        elif request.weird or response.weird:
            self._explain_odd((refusal for _, refusal in codes), [*(request.weird or ()), *(response.weird or ())])

    def _explain_odd(self, refusals: Iterable[Refusal], weirds: Iterable[str]) -> None:
        """Refusals of bytes that are odd themselves."""
        odd = {code for weird in weirds for code in _REFUSED_WITH.get(weird, ())}
        self.observed.explained.update(refusal for refusal in refusals if refusal.error_code in odd)

    def _known(self, refusal: Refusal) -> Refusal:
        """It, or what stands for all beyond the limit."""
        answered = self.observed.answered
        return (
            refusal
            if refusal in answered or len(answered) < limits.STATISTICS_ROWS
            else refusal._replace(client=OTHERS)
        )


def _explains(finding: Finding, placed: PlacedCode) -> bool:
    rule = BOOK.by_code[finding.code]
    if placed.partition is None or rule.when is not None:
        return not rule.weird
    return placed.partition == finding.partition and placed.topic_id in (None, finding.topic_id)

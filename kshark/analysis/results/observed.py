"""Observations of a capture besides its findings: how much was judged, which time and brokers it covers, and which
refusals no finding explains."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping
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
from kshark.unread import Unread

#: Weirds about the capture itself, which decide how far its findings can be trusted.
DEFECTS: Final = frozenset(
    {"SNAP_LENGTH_CUT", "PACKETS_DROPPED", "CAPTURE_CUT", "CAPTURE_UNREAD", "CLOCK_STEP", "CLOCK_STOPPED"}
)
#: With fewer requests, a missing direction may be chance.
ONE_SIDED: Final = 5
#: The name of the row that stands for all rows beyond a table's limit.
OTHERS: Final = "(others)"


class Refusal(NamedTuple):
    """An error code in an answer to a client. `client` is its client id, or its address if it sends none."""

    api: str
    error_code: int
    client: str


class Observed(Struct):
    """The counts of a capture or of a part of it. `join` adds parts.

    `judged`: exchanges of APIs that rules are about. `answered`: all error codes except 0, at any depth of any answer.
    `explained`: those that a finding explains. `since_ns` to `until_ns`: the time of its connections. `brokers`: the
    addresses that spoke Kafka. `unread`: connections that are not read as Kafka. `duplicates`: packets left out because
    they were captured twice. `coverage`: how often rules were put to the test, if counted. Of the exchanges, `orphans`
    have no request, `one_way` ask for no answer, and `unanswered` have none. `tried`: how often rules about some
    exchanges only were put to the test, if counted. `defects`, `defect_bytes`: packets and bytes of weirds about the
    capture itself, by code (DEFECTS). `missing_bytes`: of gaps, as far as their size is known. `body_cut`: exchanges
    whose request or answer the snap length cut. `counted_read`: `read` of the exchanges that coverage counts, if these
    are not all."""

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
    unread: Unread = field(default_factory=Unread)
    tried: Counter[Read] = field(default_factory=Counter)
    defects: Counter[str] = field(default_factory=Counter)
    defect_bytes: Counter[str] = field(default_factory=Counter)
    missing_bytes: int = 0
    body_cut: int = 0
    counted_read: Counter[Read] | None = None

    @property
    def read(self) -> dict[Read, int]:
        """The amounts that put rules about bytes to the test (kshark.analysis.rules.rule.Read)."""
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
            "connections": self.unread.kafka,
            **self.tried,
        }

    @property
    def one_sided(self) -> str:
        """`requests` or `responses`, if the capture has no others; else an empty text.

        A few requests without an answer may be chance. So are many if no byte of the broker is missing: it is silent.
        """
        due = self.exchanges - self.orphans - self.one_way
        if self.orphans == self.exchanges:
            return "responses" if self.orphans else ""
        return "requests" if not self.orphans and due == self.unanswered >= ONE_SIDED and self.gaps else ""

    def is_empty(self, *, has_events: bool = False) -> bool:
        """True if nothing could be judged: no Kafka message, one direction only, or a few messages beside TLS that no
        rule is about. `has_events`: there are events, which one direction may show."""
        is_hidden = not self.judged and self.tls_connections > 0
        return not self.exchanges or is_hidden or (bool(self.one_sided) and not has_events)

    def why_empty(self, *, has_keys: bool = False, has_events: bool = False) -> str | None:
        """Return why nothing could be judged, and what to do; None if something was. `has_keys`: a key log was
        given."""
        return self.unread.why(self.one_sided, has_keys=has_keys) if self.is_empty(has_events=has_events) else None

    def rules(self) -> list[RuleCoverage]:
        """Return how often each rule was put to the test; an empty list if that was not counted."""
        read = self.read if self.counted_read is None else self.counted_read
        return [] if self.coverage is None else self.coverage.rules(read)

    def connection(self, flow: Flow) -> None:
        """Count a connection that is over."""
        self._extend(flow.first_time_ns, flow.last_time_ns)
        self.unread.connection(flow)
        if flow.service == "kafka" and len(self.brokers) < limits.BROKERS:
            self.brokers.add(flow.broker)
        self.tls_connections += flow.service == "tls"

    def weird(self, weird: Weird) -> None:
        self.unread.weird(weird)
        if weird.code == "DUPLICATE_PACKETS":
            self.duplicates += weird.times
        if weird.code in DEFECTS:
            self.defects[weird.code] += weird.times
            self.defect_bytes[weird.code] += weird.size

    def gap(self, gap: Gap) -> None:
        self.gaps += 1
        if gap.reason == "missing":
            self.missing_bytes += max(0, gap.size)

    def join(self, other: Observed) -> None:
        """Add the counts of other pages, connections or members."""
        self.sessions += other.sessions
        self.exchanges += other.exchanges
        self.gaps += other.gaps
        self.judged += other.judged
        self.orphans += other.orphans
        self.one_way += other.one_way
        self.unanswered += other.unanswered
        self.unread.join(other.unread)
        self.tried.update(other.tried)
        self.defects.update(other.defects)
        self.defect_bytes.update(other.defect_bytes)
        self.missing_bytes += other.missing_bytes
        self.body_cut += other.body_cut
        self.answered.update(other.answered)
        self.explained.update(other.explained)
        if other.since_ns is not None and other.until_ns is not None:
            self._extend(other.since_ns, other.until_ns)
        self.brokers |= other.brokers
        self.tls_connections += other.tls_connections
        self.duplicates += other.duplicates
        if other.coverage is not None:
            self.coverage = self.coverage or Coverage()
            self.coverage.join(other.coverage)

    def _extend(self, since_ns: int, until_ns: int) -> None:
        self.since_ns = since_ns if self.since_ns is None else min(self.since_ns, since_ns)
        self.until_ns = until_ns if self.until_ns is None else max(self.until_ns, until_ns)

    @property
    def is_explained(self) -> bool:
        """True if findings explain all refusals. That an error is expected is no explanation."""
        return not self.answered - self.explained

    def unexplained(self) -> list[dict[str, Any]]:
        """Return the refusals without a cause by API and error code, with their number and clients, the most frequent
        first."""
        return [row for row in self._unexplained_rows() if cause_of(row["api"], row["error_code"]) is None]

    def ordinary(self) -> list[dict[str, Any]]:
        """Return the expected errors in the same form, with their `cause`: they are nobody's fault."""
        causes = [(row, cause_of(row["api"], row["error_code"])) for row in self._unexplained_rows()]
        return [{**row, "cause": cause} for row, cause in causes if cause is not None]

    def _unexplained_rows(self) -> list[dict[str, Any]]:
        """Return the refusals without a finding."""
        rows: dict[tuple[str, int], Counter[str]] = {}
        for refusal, count in (self.answered - self.explained).items():
            rows.setdefault(refusal[:2], Counter())[refusal.client] += count
        ordered = sorted(rows.items(), key=lambda row: (-row[1].total(), row[0]))
        return [
            {"api": api, "error_code": code, "count": clients.total(), "clients": sorted(clients)}
            for (api, code), clients in ordered
        ]

    def covered(self) -> dict[str, Any]:
        """Return the time, the brokers and the connections that the capture covers."""
        return {
            "since_ns": self.since_ns,
            "until_ns": self.until_ns,
            "brokers": sorted(self.brokers),
            "tls_connections": self.tls_connections,
            "duplicates": self.duplicates,
        }


_OF_RULES: Final = BOOK.apis
#: APIs whose answers have error codes of partitions only: a coordinator that does not accept the member or its
#: generation gives its code to each partition. Kafka: GroupCoordinatorService.commitOffsets.
_REFUSED_AS_A_WHOLE: Final = frozenset({"OffsetCommit", "TxnOffsetCommit", "OffsetFetch"})
_REFUSED_WITH: Final = {code: rule.refused_with for code, rule in BOOK.weirds.items() if rule.refused_with}
#: The position of an answer: connection, packet, correlation id.
_AnswerKey = tuple[Any, Any, Any]


class Observer:
    """Count the pages of a capture, and the findings in them, in `observed`.

    A finding explains error codes of its exchange, if it stands at the request or the answer: the answer's own codes;
    the codes of its partition, if it has one, and of all partitions if the coordinator refused them as a whole; and all
    codes if its rule is about exchanges and not about a machine. A
    finding that stands elsewhere, at a connection's end for example, explains none. Neither does a finding about bytes,
    except for the codes with which brokers refuse such bytes (Rule.refused_with), in APIs that no other rule is about.
    `judged`: the APIs whose exchanges count as judged. `coverage`: count `tried` too."""

    def __init__(self, registry: Registry, *, judged: Collection[int] = _OF_RULES, coverage: bool = False) -> None:
        self.observed = Observed()
        self._judged = judged
        self._tries: Mapping[Any, Tries] = TRIES if coverage else {}
        self._codes = ErrorCodes(registry)
        #: Refusals that a finding may still explain, of APIs that rules are about. Beyond limits.REFUSALS the oldest
        #: are dropped.
        self._open: OrderedDict[_AnswerKey, list[tuple[PlacedCode, Refusal]]] = OrderedDict()

    def page(self, page: Iterable[Event]) -> dict[int, list[PlacedCode]]:  # noqa: C901 - hot: the loop over all events
        """Count events of the time line, before `explain` takes their findings.

        Return the error codes of exchanges that have some, by id() of the exchange.
        """
        tests, observed, apis, tries = self._codes.tests, self.observed, self._judged, self._tries
        exchanges = judged = 0
        refusals: dict[int, list[PlacedCode]] = {}
        for event in page:
            if type(event) is Message:
                continue  # half of all events: this test comes first and is the only one
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
                if event.outcome == "body_cut":
                    observed.body_cut += 1
                if response is None:
                    observed.one_way += event.outcome == "one_way"
                    observed.unanswered += event.outcome != "one_way"
                elif (tests.get(type(response.body)) or self._codes.learn(response))(response.body):
                    refusals[id(event)] = self._refused(request, response)
            elif type(event) is Closed:
                observed.connection(event.flow)
            elif type(event) is Gap:
                observed.gap(event)
            elif type(event) is Weird:
                observed.weird(event)
        observed.exchanges += exchanges
        observed.judged += judged
        return refusals

    def answer(self, request: Message, response: Message) -> None:
        """Count the codes of one answer only; the caller counts the rest."""
        body = response.body
        if (self._codes.tests.get(type(body)) or self._codes.learn(response))(body):
            self._refused(request, response)

    def refusals(self, api_key: int, refusals: Iterable[Refusal], weirds: Iterable[str]) -> None:
        """Count the refusals of one answer whose body the caller has read, with the weirds of both messages. No finding
        explains them later."""
        limited = [self._limited(refusal) for refusal in refusals]
        self.observed.answered.update(limited)
        if api_key not in _OF_RULES:
            self._explain_faults(limited, weirds)

    def explain(self, findings: Iterable[Finding]) -> None:
        """Take findings, after the pages of their exchanges."""
        for finding in findings:
            about = finding.witness[-1]
            answer_key = about.flow, about.response_packet, about.correlation_id
            unexplained = (
                self._open.pop(answer_key, None)
                if finding.packet in (about.request_packet, about.response_packet)
                else None
            )
            if unexplained is not None:
                explained = [code for code in unexplained if _explains(finding, *code)]
                self.observed.explained.update(refusal for _, refusal in explained)
                if len(explained) < len(unexplained):
                    self._open[answer_key] = [code for code in unexplained if code not in explained]

    def _refused(self, request: Message, response: Message) -> list[PlacedCode]:
        """Count the error codes of an answer, and return them."""
        api_key, version, api = request.api_key, request.version, request.api
        assert isinstance(api_key, int)  # its answer was read
        assert isinstance(version, int)
        assert isinstance(api, str)
        client = request.client_id or host_of(request.client)
        codes = [
            (placed, self._limited(Refusal(api, placed.code, client)))
            for placed in self._codes.placed(response.body, api_key, version)
        ]
        self.observed.answered.update(refusal for _, refusal in codes)
        if api_key in _OF_RULES:
            self._open[response.flow, response.packet, response.correlation_id] = codes
            if len(self._open) > limits.REFUSALS:
                self._open.popitem(last=False)
        elif request.weird or response.weird:
            self._explain_faults((refusal for _, refusal in codes), [*(request.weird or ()), *(response.weird or ())])
        return [placed for placed, _ in codes]

    def _explain_faults(self, refusals: Iterable[Refusal], weirds: Iterable[str]) -> None:
        """Explain refusals by the faults of the refused bytes."""
        expected = {code for weird in weirds for code in _REFUSED_WITH.get(weird, ())}
        self.observed.explained.update(refusal for refusal in refusals if refusal.error_code in expected)

    def _limited(self, refusal: Refusal) -> Refusal:
        """Return the refusal; beyond limits.STATISTICS_ROWS with OTHERS as its client."""
        answered = self.observed.answered
        return (
            refusal
            if refusal in answered or len(answered) < limits.STATISTICS_ROWS
            else refusal._replace(client=OTHERS)
        )


def _explains(finding: Finding, placed: PlacedCode, refusal: Refusal) -> bool:
    rule = BOOK.by_code[finding.code]
    is_whole = placed.partition is None or (finding.partition is None and refusal.api in _REFUSED_AS_A_WHOLE)
    if is_whole or rule.when is not None:
        return not rule.weird
    return placed.partition == finding.partition and placed.topic_id in (None, finding.topic_id)

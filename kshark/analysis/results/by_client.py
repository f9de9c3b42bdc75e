"""Coverage by client: how often each client put the rules about it to the test, with the results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from kshark.analysis.facts.parties import Parties, Party
from kshark.analysis.results.tried import TRIES
from kshark.analysis.rules import BOOK
from kshark.analysis.rules.rule import Read, Rule
from kshark.analysis.runners.coverage import Coverage, RuleCoverage
from kshark.analysis.states.tables import PERSISTER
from kshark.api_keys import FIND_COORDINATOR, SHARE_STATE
from kshark.model import Closed, Event, Exchange

By = Literal["client", "software"]
#: Of FindCoordinator, the one rule is about keys of share coordinators.
_TO_COORDINATORS: Final = SHARE_STATE | {FIND_COORDINATOR}
#: The name of clients that do not introduce themselves (KIP-511).
UNNAMED: Final = "(unknown software)"


class ClientCoverage(NamedTuple):
    """The coverage of one client, or of all clients with one software: the rules that can blame a client, each with its
    counts. `software`: of one client, as it introduced itself."""

    name: str
    software: str | None
    rules: Sequence[RuleCoverage]


def is_of_client(rule: Rule) -> bool:
    """True for a rule about a client's own requests that can blame it.

    Senders of requests to share coordinators, and of requests that look for them, are brokers.
    """
    is_of_state = rule.machine is PERSISTER or (bool(rule.apis) and _TO_COORDINATORS.issuperset(rule.apis))
    return rule.number is not None and "client" in rule.blame and not is_of_state


#: The codes of these rules.
OF_CLIENTS: Final = frozenset(rule.code for rule in BOOK.rules if is_of_client(rule))


class ReadByClient:
    """Count what each client puts to the test of the rules about bytes; `parties` learns the clients.

    `total`: all that was read. `sent`: of each client, what it sent itself.
    """

    def __init__(self, parties: Parties) -> None:
        self.parties: Final = parties
        self.total: Final = Counter[Read]()
        self.sent: Final = defaultdict[Party, Counter[Read]](Counter)

    def page(self, page: Iterable[Event]) -> None:
        """Count events of the time line."""
        self.parties.begin_page()
        for event in page:
            if type(event) is Exchange:
                self._exchange(event)
            elif type(event) is Closed and event.flow.service == "kafka":
                party = self.parties.ended(event.flow)
                if party is not None:
                    self.sent[party]["connections"] += 1
                    self.total["connections"] += 1

    def _exchange(self, exchange: Exchange) -> None:
        party, request, response = self.parties.exchange(exchange), exchange.request, exchange.response
        if party is None or request is None:
            return
        is_one_way, answers = exchange.outcome == "one_way", response is not None
        read: dict[Read, int] = {
            "frames": 1,
            "requests": 1,
            "messages": 1,
            "one_way": is_one_way,
            "due": not is_one_way,
        }
        self.sent[party].update(read)
        self.total.update({**read, "messages": 1 + answers, "answers": answers, "matched": answers})
        if (tries := TRIES.get(request.api_key)) is not None:
            tries(request, response, self.total)
            tries(request, None, self.sent[party])


def by_client(by: By, reads: ReadByClient, coverage: Mapping[Party, Coverage]) -> list[ClientCoverage]:
    """Return the coverage of each client that is no broker, or of each software, by name."""
    joined: dict[str, tuple[Party, Coverage, Counter[Read]]] = {}
    for party in reads.parties.clients():
        name = party.client if by == "client" else party.software or UNNAMED
        _, counts, read = joined.setdefault(name, (party, Coverage(), Counter()))
        counts.join(coverage.get(party, Coverage()))
        read.update(reads.sent[party])
    return [
        ClientCoverage(
            name,
            party.software if by == "client" else None,
            [row for row in counts.rules(read) if row.code in OF_CLIENTS],
        )
        for name, (party, counts, read) in sorted(joined.items())
    ]

"""The last step for consumers that show bodies: contents of bytes fields are decoded next to them, topic ids get their
names.

Others do not pay for it: kshark.pipeline takes this step only if Options.embedded asks for it. Most messages cost one
look into a dict, answers with users' records a look at their topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from kshark import limits
from kshark.embedded.companions import Companion, companions, ordinary
from kshark.facts import Asked, Fact
from kshark.model import Event, Exchange, Kind, Late, Message, Weird
from kshark.names import TopicNames
from kshark.places import Log, OpaqueField
from kshark.records import RecordsReader
from kshark.registry import Registry


class _Plan(Struct, frozen=True):
    """What messages of one API and direction can hold: structures in bytes fields, structures in records, names of
    topic ids."""

    places: tuple[OpaqueField, ...]
    records: OpaqueField | None
    names: bool


class _Plans(dict[Any, _Plan | None]):
    """The plans of one direction by api key, each made when its first message comes; None: there is nothing to look
    for."""

    def __init__(self, registry: Registry, names: TopicNames, kind: Kind) -> None:
        self._registry = registry
        self._names = names
        self._kind = kind

    def __missing__(self, key: Any) -> _Plan | None:
        places = self._registry.places(key, self._kind) if isinstance(key, int) else ()
        names = self._names.teaches(key, self._kind)
        in_records = [place for place in places if any(isinstance(holding, Log) for holding in place.holds.values())]
        plan = _Plan(places, in_records[0] if in_records == list(places) and len(places) == 1 else None, names)
        self[key] = plan if places or names else None
        return self[key]


class Embedding:
    """Decodes what messages hold, page by page, in the order of the time line; `names` are the topic names known so
    far.

    `asking`: of a capture only some connections come here; what is asked about topics that others may name is
    remembered.
    `secrets`: credentials are shown, not masked.
    """

    def __init__(
        self, registry: Registry, records: RecordsReader, *, asking: bool = False, secrets: bool = False
    ) -> None:
        self.names = TopicNames(registry)
        self.asked = Asked("own topic")
        self._asking = asking
        self._secrets = secrets
        self._registry = registry
        self._records = records
        self._requests = _Plans(self._registry, self.names, "request")
        self._responses = _Plans(self._registry, self.names, "response")
        #: NAMES_LIMIT, to be reported after this message.
        self._limit: tuple[Weird, Message] | None = None
        #: Whether NAMES_LIMIT was reported.
        self.limit_reported = False

    def open(self, page: list[Event]) -> list[Event]:
        """The page, in which every message has its decoded contents."""
        requests, responses = self._requests, self._responses
        for event in page:
            if type(event) is Message:
                if event.kind == "request" and (plan := requests[event.api_key]) is not None:
                    self._message(plan, event, None)
            elif (
                type(event) is Exchange
                and (answer := event.response) is not None
                and (asked := event.request) is not None
            ):
                plan = responses[asked.api_key]
                if plan is not None:
                    self._message(plan, answer, asked.body)
            elif isinstance(event, Late):
                self.names.reach(event.packet)
        self._records.controls = False
        if self._limit is not None:
            (weird, message), self._limit = self._limit, None
            at = max(
                at
                for at, event in enumerate(page)
                if event is message or (isinstance(event, Exchange) and event.response is message)
            )
            page.insert(at + 1, weird)
        return page

    def add_facts(self, facts: Iterable[Fact]) -> None:
        """What connections decoded elsewhere taught."""
        self.names.add_facts(fact for fact in facts if fact.kind == "own topic")

    @property
    def taught(self) -> Iterator[Fact]:
        """What connections here taught that matters for others: ids of topics whose records are opened."""
        own = self._registry.own_topics
        return (fact for fact in self.names.taught("own topic") if fact.value in own)

    def _message(self, plan: _Plan, message: Message, request: Any) -> None:
        body = message.body
        if body is None or body is UNSET:
            return
        known: Mapping[str, str] = self.names.by_id
        if self._asking:
            self.names.reach(message.packet)
            known = _Asking(known, self.asked, self.names.packet)
        if plan.names:
            self.names.learn(message)
        if plan.records is not None and ordinary(plan.records, body, known, controls=self._records.controls):
            return
        if plan.places:
            asked = None if request is UNSET else request
            found = companions(
                plan.places, body, request=asked, names=known, registry=self._registry, secrets=self._secrets
            )
            self._attach(message, found)
        if self.names.full and not self.limit_reported:
            self.limit_reported = True
            self._limit = (
                Weird("NAMES_LIMIT", "exchange", message.packet, message.time_ns, f"{limits.TOPICS} topic ids"),
                message,
            )

    def _attach(self, message: Message, found: Iterator[Companion]) -> None:
        faults: dict[str, str] = {}
        self.names.reach(message.packet)
        for one in islice(found, limits.STRUCTURES_PER_MESSAGE):
            one.attach()
            if one.code is not None:
                faults.setdefault(one.code, one.detail)
            if isinstance(one.value, dict):
                self.names.learn_opened(one.value)
        if next(found, None) is not None:
            faults["EMBEDDED_LIMIT"] = f"{limits.STRUCTURES_PER_MESSAGE} structures"
        if faults:
            _mark(message, faults)


class _Asking(Mapping[str, str]):
    """Names of topic ids, which remember what was asked while a message was read."""

    def __init__(self, known: Mapping[str, str], asked: Asked, packet: int) -> None:
        self._known = known
        self._asked = asked
        self._packet = packet

    def __getitem__(self, key: str) -> str:
        found = self._known.get(key)
        self._asked.ask(key, found, self._packet + 1)
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _mark(message: Message, faults: Mapping[str, str]) -> None:
    """Adds codes to the message, each with its first detail."""
    before = [] if isinstance(message.weird, UnsetType) else message.weird
    message.weird = list(dict.fromkeys((*before, *faults)))
    told = [] if isinstance(message.detail, UnsetType) else [message.detail]
    message.detail = "; ".join([*told, *(f"{code}: {detail}" for code, detail in faults.items())])

"""Last stage for consumers that show bodies: decode the contents of bytes fields, and give topic ids their names.

Other consumers do not pay for it: kshark.pipeline runs this stage only if Options.embedded asks for it. Most messages
cost one look into a dict; answers with users' records cost a look at their topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from kshark import limits
from kshark.embedded.companions import Companion, companions, ordinary
from kshark.model import Event, Exchange, Kind, Late, Message, Weird
from kshark.names import TopicNames
from kshark.places import Log, OpaqueField
from kshark.records import RecordsReader
from kshark.registry import Registry


class _Plan(Struct, frozen=True):
    """Possible contents of the messages of one API and direction.

    They are structures in bytes fields, structures in records, and names of topic ids.
    """

    places: tuple[OpaqueField, ...]
    records: OpaqueField | None
    names: bool


class _Plans(dict[Any, _Plan | None]):
    """Plans of one direction by api key, each made when its first message arrives.

    None means that such messages hold nothing to decode.
    """

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
    """Decoder of the contents of messages, page by page, in the order of the time line.

    `names` are the topic names known so far.
    `secrets`: credentials are shown, not masked.
    """

    def __init__(self, registry: Registry, records: RecordsReader, *, secrets: bool = False) -> None:
        self.names = TopicNames(registry)
        self._secrets = secrets
        self._registry = registry
        self._records = records
        self._requests = _Plans(self._registry, self.names, "request")
        self._responses = _Plans(self._registry, self.names, "response")
        #: NAMES_LIMIT, to be reported after this message.
        self._limit: tuple[Weird, Message] | None = None
        #: True if NAMES_LIMIT was reported.
        self.limit_reported = False

    def open(self, page: list[Event]) -> list[Event]:
        """Decode the contents of every message of a page; return the page."""
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

    def _message(self, plan: _Plan, message: Message, request: Any) -> None:
        body = message.body
        if body is None or body is UNSET:
            return
        names: Mapping[str, str] = self.names.by_id
        if plan.names:
            self.names.learn(message)
        if plan.records is not None and ordinary(plan.records, body, names, controls=self._records.controls):
            return
        if plan.places:
            asked = None if request is UNSET else request
            message_companions = companions(
                plan.places, body, request=asked, names=names, registry=self._registry, secrets=self._secrets
            )
            self._attach(message, message_companions)
        if self.names.full and not self.limit_reported:
            self.limit_reported = True
            self._limit = (
                Weird("NAMES_LIMIT", "exchange", message.packet, message.time_ns, f"{limits.TOPICS} topic ids"),
                message,
            )

    def _attach(self, message: Message, message_companions: Iterator[Companion]) -> None:
        faults: dict[str, str] = {}
        self.names.reach(message.packet)
        for companion in islice(message_companions, limits.STRUCTURES_PER_MESSAGE):
            companion.attach()
            if companion.code is not None:
                faults.setdefault(companion.code, companion.detail)
            if isinstance(companion.value, dict):
                self.names.learn_opened(companion.value)
        if next(message_companions, None) is not None:
            faults["EMBEDDED_LIMIT"] = f"{limits.STRUCTURES_PER_MESSAGE} structures"
        if faults:
            _mark(message, faults)


def _mark(message: Message, faults: Mapping[str, str]) -> None:
    """Add codes to the message, each with its first detail."""
    before = [] if isinstance(message.weird, UnsetType) else message.weird
    message.weird = list(dict.fromkeys((*before, *faults)))
    details = [] if isinstance(message.detail, UnsetType) else [message.detail]
    message.detail = "; ".join([*details, *(f"{code}: {detail}" for code, detail in faults.items())])

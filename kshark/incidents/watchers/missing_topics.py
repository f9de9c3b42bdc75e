"""Clients that ask for topics which do not exist. Incident TOPIC_MISSING."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.rules.rule import NOTES, Rule
from kshark.api_keys import METADATA
from kshark.incidents.incident import Incident
from kshark.incidents.series import Case, Series, SeriesWatcher, client_of
from kshark.model import Exchange
from kshark.units import shortened
from kshark_dissectors.enums import ErrorCode

#: A topic that is created by the first request for it is there sooner, and is asked for less often.
_TIMES: Final = 5
_LASTED_NS: Final = 1_000_000_000
INVALID_NAME: Final = "invalid_name"
_WHY: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ("no_such_topic", "the cluster has no such topic"),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (INVALID_NAME, "no topic may have that name"),
}

TOPIC_MISSING: Final = Rule(
    number=None,
    code="TOPIC_MISSING",
    text="A client asks again and again for a topic that does not exist.",
    source="Kafka: KafkaApis.handleTopicMetadataRequest, Topic.validate",
    blame=(),
    verdicts=NOTES,
    causes=("no_such_topic", INVALID_NAME),
    must="The topics that a client uses exist.",
    advice="Correct the topic's name in the client, or create the topic (kafka-topics --create): brokers create topics "
    "that are asked for only with auto.create.topics.enable. A name has at most 249 of the characters a-z, A-Z, 0-9, "
    "dot, underscore and hyphen.",
    weight=50,
)


class MissingTopics(SeriesWatcher):
    """Watch the topics that Metadata does not find."""

    rows = (TOPIC_MISSING,)
    refusals = True

    def refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> Iterable[Incident]:
        request = exchange.request
        if request is None or request.api_key != METADATA:
            return ()
        over: list[Incident] = []
        for placed in codes:
            # A topic with an id was there before: TOPIC_DELETED_IN_USE.
            if placed.code in _WHY and placed.name and self.scene.topic_id(placed.name) is None:
                over += self.collect(exchange, _case(exchange, ErrorCode(placed.code), placed.name))
        return over

    def over(self, series: Series) -> Iterable[Incident]:
        return [*self._named(series, super().over(series))]

    def lasting(self) -> Iterable[Incident]:
        return [it for series in self.series.values() for it in self._named(series, (series.incident(),))]

    def _named(self, series: Series, incidents: Iterable[Incident]) -> Iterator[Incident]:
        """Yield the incident of a topic that did not exist for long, with the one that may be meant."""
        from difflib import get_close_matches  # 1 ms, rarely needed

        for incident in incidents:
            until, times = incident.until or self.scene.now, sum(incident.refusals.values())
            is_long = times >= _TIMES and until.time_ns - incident.since.time_ns >= _LASTED_NS
            if not is_long and incident.cause != INVALID_NAME:
                continue
            near = get_close_matches(str(series.about), {*self.scene.names.by_id.values()}, 1, 0.75)
            more = f"; there is a topic {shortened(near[0], 80)}" if near else ""
            yield replace(incident, text=incident.text + more)


def _case(exchange: Exchange, code: ErrorCode, name: str) -> Case:
    cause, why = _WHY[code]
    return Case(
        TOPIC_MISSING,
        f"{client_of(exchange)} asked broker {exchange.flow.broker} for topic {shortened(name, 80)}: {why}",
        cause,
        about=name,
        codes=(int(code),),
    )

"""Check tables: typed columns select the members that can have a finding; their exchanges are judged by buckets.
All exchanges are read for incidents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kshark.analysis import MemberKey, Observed, Outcomes
from kshark.analysis.states.partition.window import USUAL
from kshark.errors import UnreadableInput
from kshark.model import Finding
from kshark.output.notes import Notes
from kshark_spark.buckets import Bucketed, judged
from kshark_spark.refusals import exchanges_of
from kshark_spark.screen import EVERYBODY, screened
from kshark_spark.suspects import (
    Connections,
    PackedSummary,
    connections_of,
    names_of_brokers,
    packed,
    summaries_of,
    window_of,
)
from kshark_spark.topics import topic_names

if TYPE_CHECKING:
    from kshark_spark.tables import Tables


@dataclass
class Checked:
    """The result of one capture.

    Findings in packet order, the names of their topics if requested, the observed traffic, the notes on its packets
    (None: not read here, as from tables), how its members fared, a sentence on one member that dominated the work, the
    files that were left out because they cannot be read, or not to their end, and the number of packets read.
    """

    findings: list[Finding] = field(default_factory=list)
    topics: dict[str, str] = field(default_factory=dict)
    observed: Observed = field(default_factory=Observed)
    notes: Notes | None = None
    outcomes: dict[MemberKey, Outcomes] = field(default_factory=dict)
    giant: str | None = field(default=None, compare=False)
    left_out: list[UnreadableInput] = field(default_factory=list, compare=False)
    packets: int | None = field(default=None, compare=False)


def check(
    tables: Tables,
    captures: Sequence[str],
    buckets: int,
    *,
    named: bool = False,
    coverage: bool = False,
    outcomes: bool = False,
) -> dict[str, Checked]:
    """Return the result of each capture; `named`: with the names of the topics in findings.

    `buckets`: their number over all captures, at least one per capture. `coverage`: count the coverage of rules, and
    judge all members. `outcomes`: count how all members fared, and judge them; without it only suspects are counted.
    """
    spark, connections = tables["exchanges"].sparkSession, connections_of(tables, captures)
    per_capture = max(1, buckets // max(1, len(captures)))
    screening = EVERYBODY if coverage or outcomes else screened(tables, {}, USUAL)
    exchanges = packed(spark, tables, screening.suspects, connections, per_capture)
    try:
        summaries = summaries_of(exchanges)
        names = {
            (name, address): shared
            for name, of in connections.items()
            for address, shared in names_of_brokers(summaries[of.number].common).items()
        }
        window = min((window_of(summary.common) for summary in summaries.values()), default=USUAL)
        if (names or window < USUAL) and screening.suspects is not None:
            screening = screened(tables, names, window)
            exchanges.unpersist()
            exchanges = packed(spark, tables, screening.suspects, connections, per_capture)
            summaries = summaries_of(exchanges)
        bucketed = [_bucketed(of, per_capture, summaries[of.number]) for of in connections.values()]
        results = judged(exchanges, bucketed, coverage=coverage)
    finally:
        exchanges.unpersist()
    observed = exchanges_of(spark, tables, coverage=coverage)
    checked = {}
    for name, result in zip(captures, results, strict=True):
        seen = observed.get(name, Observed())
        seen.join(connections[name].observed)
        seen.join(result.observed)
        seen.sessions += screening.clean.get(name, 0)
        giant = summaries[connections[name].number].giant
        checked[name] = Checked(result.findings, {}, seen, outcomes=result.outcomes, giant=giant)
    if named:
        asked = {
            name: {finding.topic_id for finding in own.findings if finding.topic_id} for name, own in checked.items()
        }
        courses = {name: of.courses for name, of in connections.items()}
        for name, topics in topic_names(tables["exchanges"], asked, courses).items():
            checked[name].topics = topics
    return checked


def _bucketed(capture: Connections, buckets: int, summary: PackedSummary) -> Bucketed:
    return Bucketed(capture.number * (buckets + 1), buckets, capture.common(summary.common), summary.sizes)

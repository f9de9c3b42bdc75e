"""The check of tables: members who can have a finding are told by typed columns; their exchanges alone are read and
judged, by buckets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kshark.analysis import Observed, in_packet_order
from kshark.analysis.states.partition.window import USUAL
from kshark.model import Finding
from kshark.output.notes import Notes
from kshark_spark.buckets import Bucketed, judged
from kshark_spark.refusals import exchanges_of
from kshark_spark.screen import EVERYBODY, screened
from kshark_spark.suspects import connections_of, names_of_brokers, packed, told_of, window_of
from kshark_spark.topics import topic_names

if TYPE_CHECKING:
    from kshark_spark.tables import Tables


@dataclass
class Checked:
    """Of one capture: findings in packet order, the names of their topics if asked for, what they were found in, what
    was odd about its packets (None: they were read before, as from tables), and what was odd about the work."""

    findings: list[Finding] = field(default_factory=list)
    topics: dict[str, str] = field(default_factory=dict)
    observed: Observed = field(default_factory=Observed)
    notes: Notes | None = None
    giant: str | None = field(default=None, compare=False)

    @classmethod
    def of(cls, found: Iterable[Finding], names: Mapping[str, str], notes: Notes, observed: Observed) -> Checked:
        """Of a capture that was read; `names`: of all topics that are known."""
        findings = in_packet_order(found)
        topics = {
            topic_id: names[topic_id]
            for finding in findings
            if (topic_id := finding.topic_id) is not None and topic_id in names
        }
        return cls(findings, topics, observed, notes)


def check(
    tables: Tables, captures: Sequence[str], buckets: int, *, named: bool = False, coverage: bool = False
) -> dict[str, Checked]:
    """The findings of each capture, with the names of their topics if these are to be `named`; `buckets` in all, one a
    capture at least.

    `coverage`: it is counted, and everybody is judged.
    """
    spark, connections = tables["exchanges"].sparkSession, connections_of(tables, captures)
    each = max(1, buckets // max(1, len(captures)))
    known = EVERYBODY if coverage else screened(tables, {}, USUAL)
    exchanges = packed(spark, tables, known.suspects, connections, each)
    said = told_of(exchanges)
    names = {
        (name, address): one
        for name, of in connections.items()
        for address, one in names_of_brokers(said[of.number].common).items()
    }
    window = min((window_of(one.common) for one in said.values()), default=USUAL)
    if (names or window < USUAL) and known.suspects is not None:
        known = screened(tables, names, window)
        exchanges = packed(spark, tables, known.suspects, connections, each)
        said = told_of(exchanges)
    told = [Bucketed(of.number * each, each, of.common(said[of.number].common)) for of in connections.values()]
    found = judged(exchanges.where("bucket >= 0"), told, coverage=coverage)
    observed = exchanges_of(spark, tables, coverage=coverage)
    checked = {}
    for name, one in zip(captures, found, strict=True):
        seen = observed.get(name, Observed())
        seen.join(connections[name].observed)
        seen.join(one.observed)
        seen.sessions += known.clean.get(name, 0)
        checked[name] = Checked(in_packet_order(one.findings), {}, seen, giant=said[connections[name].number].giant)
    if named:
        asked = {
            name: {finding.topic_id for finding in one.findings if finding.topic_id} for name, one in checked.items()
        }
        courses = {name: of.courses for name, of in connections.items()}
        for name, topics in topic_names(tables["exchanges"], asked, courses).items():
            checked[name].topics = topics
    return checked

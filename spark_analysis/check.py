"""The check: rows become steps, steps are screened, suspicious members go through kshark's analysis, bucket by bucket."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kshark.analysis import in_packet_order
from kshark.model import Finding
from kshark.output.notes import Notes
from spark_analysis.buckets import once
from spark_analysis.machine import FOUND, find
from spark_analysis.screen import screened
from spark_analysis.steps import BUCKET, TIME, gathered, steps_of
from spark_analysis.topics import topic_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class Checked:
    """Of one capture: findings in packet order, the names of their topics if asked for, the counts of Analyzer.summary, what was odd
    about its packets, and what was odd about the work."""

    findings: list[Finding] = field(default_factory=list)
    topics: dict[str, str] = field(default_factory=dict)
    sessions: int = 0
    exchanges: int = 0
    gaps: int = 0
    notes: Notes = field(default_factory=Notes)
    giant: str | None = field(default=None, compare=False)

    @property
    def seen(self) -> dict[str, Any]:
        return {"sessions": self.sessions, "exchanges": self.exchanges, "gaps": self.gaps}


def found_in(rows: DataFrame, buckets: int) -> DataFrame:
    """What the analysis finds (FOUND): one shuffle brings each bucket together; screening and analysis happen there."""
    steps = gathered(steps_of(rows, buckets), buckets)
    return steps.transform(screened).sortWithinPartitions(*BUCKET, *TIME).mapInArrow(find, FOUND)


def counted(rows: DataFrame) -> DataFrame:
    """The number of exchanges and gaps of each capture."""
    return (
        rows.selectExpr(
            "coalesce(exchanges.capture, weirds.capture) as capture",
            "cast(exchanges is not null as int) as exchange",
            "cast(coalesce(weirds.kind = 'gap', false) as int) as gap",
        )
        .where("capture is not null")
        .groupBy("capture")
        .sum("exchange", "gap")
        .toDF("capture", "exchanges", "gaps")
    )


def check(rows: DataFrame, captures: list[str], buckets: int, *, named: bool = False) -> dict[str, Checked]:
    """The findings of each capture. Only findings, counts and (if topics are to be `named`) names come to the driver."""
    checked = {capture: Checked() for capture in captures}
    for count in counted(rows).collect():
        checked[count.capture].exchanges, checked[count.capture].gaps = count.exchanges, count.gaps
    found: dict[str, dict[int, Counter[bytes]]] = {capture: defaultdict(Counter) for capture in captures}
    for row in found_in(rows, buckets).collect():
        if row.finding is not None:
            found[row.capture][row.bucket][bytes(row.finding)] += 1
        else:
            checked[row.capture].sessions += row.sessions
    for capture, by_bucket in found.items():
        checked[capture].findings = in_packet_order(once(by_bucket.values()))
    if named:
        asked = {capture: {finding.topic_id for finding in one.findings if finding.topic_id} for capture, one in checked.items()}
        for capture, topics in topic_names(rows, asked).items():
            checked[capture].topics = topics
    return checked

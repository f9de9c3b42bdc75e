"""The check: rows to steps, steps screened, suspicious members through the machine, bucket by bucket."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from kshark.analysis import in_packet_order
from kshark.model import Finding
from spark_analysis.machine import FOUND, find
from spark_analysis.screen import screened
from spark_analysis.steps import BUCKET, TIME, gathered, steps_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class Checked:
    """Of one capture: findings in the order of packets, and what was seen, as Analyzer.summary has it."""

    findings: list[Finding] = field(default_factory=list)
    sessions: int = 0
    exchanges: int = 0
    gaps: int = 0

    @property
    def seen(self) -> dict[str, Any]:
        return {"sessions": self.sessions, "exchanges": self.exchanges, "gaps": self.gaps}


def found_in(rows: DataFrame, buckets: int) -> DataFrame:
    """What the machine finds (FOUND): one shuffle brings each bucket together, the screen and the machine work where it is."""
    steps = gathered(steps_of(rows, buckets), buckets)
    return steps.transform(screened).sortWithinPartitions(*BUCKET, *TIME).mapInArrow(find, FOUND)


def counted(rows: DataFrame) -> DataFrame:
    """Exchanges and gaps of each capture."""
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


def check(rows: DataFrame, captures: list[str], buckets: int) -> dict[str, Checked]:
    """The findings of each capture; only they and counts come to the driver."""
    checked = {capture: Checked() for capture in captures}
    for count in counted(rows).collect():
        checked[count.capture].exchanges, checked[count.capture].gaps = count.exchanges, count.gaps
    for found in sorted(found_in(rows, buckets).collect(), key=lambda row: row.bucket):
        capture = checked[found.capture]
        if found.finding is not None:
            capture.findings.append(msgspec.json.decode(found.finding, type=Finding))
        else:
            capture.sessions += found.sessions
    for capture in checked.values():
        capture.findings = in_packet_order(capture.findings)
    return checked

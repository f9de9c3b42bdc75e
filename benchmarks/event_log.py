"""Summarize one run of Spark from its event log: tasks, shuffled and spilled bytes, and the balance of the tasks."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

#: Settings of a run that writes its log into a folder, as text.
SETTINGS: Final = ("spark.eventLog.enabled=true", "spark.eventLog.compress=false", "spark.eventLog.dir={folder}")


@dataclass(frozen=True)
class Stage:
    """A stage. `begin_s`: seconds since the start of the application; `skew`: longest task relative to the median."""

    number: int
    begin_s: float
    wall_s: float
    tasks: int
    longest_s: float
    skew: float
    read_mb: float
    written_mb: float
    spilled_mb: float


def stages(folder: Path) -> list[Stage]:
    """Read the log of the only application in the folder."""
    (start,) = (event["Timestamp"] for event in _events(folder, "SparkListenerApplicationStart"))
    tasks = defaultdict[int, list[dict[str, Any]]](list)
    for event in _events(folder, "SparkListenerTaskEnd"):
        tasks[event["Stage ID"]].append(event)
    ended = (event["Stage Info"] for event in _events(folder, "SparkListenerStageCompleted"))
    return [
        _stage(info, tasks[info["Stage ID"]], start) for info in sorted(ended, key=lambda info: info["Submission Time"])
    ]


def _stage(info: dict[str, Any], tasks: list[dict[str, Any]], start: int) -> Stage:
    took = [(task["Task Info"]["Finish Time"] - task["Task Info"]["Launch Time"]) / 1000 for task in tasks]
    metrics = [task.get("Task Metrics") or {} for task in tasks]
    read = [metric.get("Shuffle Read Metrics", {}) for metric in metrics]
    return Stage(
        number=info["Stage ID"],
        begin_s=(info["Submission Time"] - start) / 1000,
        wall_s=(info["Completion Time"] - info["Submission Time"]) / 1000,
        tasks=len(tasks),
        longest_s=max(took),
        skew=max(took) / max(median(took), 0.001),
        read_mb=sum(one.get("Local Bytes Read", 0) + one.get("Remote Bytes Read", 0) for one in read) / 1e6,
        written_mb=sum(metric.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0) for metric in metrics)
        / 1e6,
        spilled_mb=sum(metric.get("Disk Bytes Spilled", 0) for metric in metrics) / 1e6,
    )


def _events(folder: Path, kind: str) -> Iterator[dict[str, Any]]:
    for path in sorted(
        path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "appstatus"))
    ):
        for line in path.read_text().splitlines():
            if f'"{kind}"' in line[:100]:
                yield json.loads(line)

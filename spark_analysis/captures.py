"""The check of captures: small ones each by one task, large ones by ranges, shares and buckets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Final

from dissectors.topics import NAMING_APIS
from kshark.analysis import Audit, Observed, in_packet_order
from kshark.capture import open_captures
from kshark.capture.numbering import place
from kshark.errors import UnreadableInput
from kshark.model import Finding, Message
from kshark.names import TopicNames
from kshark.output.notes import Notes
from kshark.pipeline import Engine, Options
from kshark.registry import Registry
from spark_analysis.check import Checked
from spark_analysis.large import Analysed, analysed
from spark_analysis.plan import Sizes, are_shared_out, located, tasks_for
from spark_analysis.rows import results
from spark_analysis.session import cores_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT: Final = Sizes()


def checked(
    spark: SparkSession, captures: Sequence[Sequence[str]], options: Options, sizes: Sizes = DEFAULT, *, coverage: bool = False
) -> list[Checked | UnreadableInput]:
    """What was found in each capture, or why it could not be read; `coverage`: whether that is counted."""
    cores = cores_of(spark)
    is_large = are_shared_out(captures, cores, sizes)
    large = [*compress(captures, is_large)]
    small = [files for files, one in zip(captures, is_large, strict=True) if not one]
    tasks = tasks_for([file for files in small for file in files], len(small), cores)
    apart = iter(
        [one if isinstance(one, UnreadableInput) else _joined(one) for one in analysed(spark, large, options, sizes, coverage=coverage)]
    )
    whole = iter(results(spark, small, lambda files: _whole(files, options, coverage), tasks))
    return [next(apart if one else whole) for one in is_large]


def _whole(files: Sequence[str], options: Options, coverage: bool) -> Checked:
    """A capture in one task."""
    registry = Registry(options.dissectors)
    audit, names, notes = Audit(registry, coverage=coverage), TopicNames(registry), Notes()
    found: list[Finding] = []
    captures = open_captures(files)
    for page in Engine(options).pages(captures):
        notes.add(page)
        found += audit.page(page)
        for event in page:
            if type(event) is Message and event.api_key in NAMING_APIS:
                names.learn(event)
    found += audit.close()
    if len(files) > 1:
        place(found, captures.numbering.locate)
    return _checked(found, names.known, notes, audit.observed)


def _joined(capture: Analysed) -> Checked:
    """A capture that many tasks have read."""
    plan, parts, found = capture
    if len(plan.files) > 1:
        place(found.findings, partial(located, plan.ranges, dict(zip(plan.files, plan.files, strict=True))))
    checked = _checked(found.findings, parts.names, parts.notes, capture.observed)
    checked.giant = capture.giant
    return checked


def _checked(found: Iterable[Finding], names: Mapping[str, str], notes: Notes, observed: Observed) -> Checked:
    findings = in_packet_order(found)
    topics = {topic_id: names[topic_id] for finding in findings if (topic_id := finding.topic_id) is not None and topic_id in names}
    return Checked(findings, topics, observed, notes)

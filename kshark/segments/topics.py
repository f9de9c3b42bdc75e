"""Find the topic of a log segment: by the name of its folder, or by its records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kshark.api_keys import FETCH
from kshark.embedded.companions import companions
from kshark.places import OpaqueField
from kshark.records import RecordsField
from kshark.records.batch import AnyBatch
from kshark.registry import Registry

#: Topic, partition, and what a broker adds to a folder that it deletes or moves (Kafka: LocalLog).
_FOLDER: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d{1,10})(\.[0-9a-f]{32}-(delete|future|stray))?")
#: Records that show a log whose folder does not.
_RECORDS: Final = 16


def topic_of(path: str) -> tuple[str | None, int | None]:
    """Return topic and partition of a segment's folder, which brokers name `TOPIC-PARTITION`."""
    match = _FOLDER.fullmatch(Path(path).absolute().parent.name)
    return (None, None) if match is None else (match["topic"], int(match["partition"]))


def topic_in(batches: Sequence[AnyBatch], registry: Registry) -> str | None:
    """Return the internal topic whose records fit into these batches to their last byte; None if not exactly one."""
    records = [
        record for batch in batches if not getattr(batch, "control", False) for record in batch.records[:_RECORDS]
    ][:_RECORDS]
    keyed = [record for record in records if getattr(record, "key", None)]
    (place,) = registry.places(FETCH, "response")
    fitting = [topic for topic in place.holds if records and _fit(place, topic, records)]
    return fitting[0] if len(fitting) == 1 and (len(keyed) == len(records) or not keyed) else None


def as_fetched(topic: str | None, batches: Sequence[Any]) -> dict[str, Any]:
    """Return batches as the body of a Fetch response, whose layout says where internal topics have structures."""
    field = RecordsField(0, [*batches])
    return {"responses": [{"topic": topic or "", "partitions": [{"records": field}]}]}


def _fit(place: OpaqueField, topic: str, records: Sequence[Any]) -> bool:
    batch = {"records": [*records], "control": False}
    opened = list(companions((place,), as_fetched(topic, [batch])))
    return bool(opened) and all(companion.code is None for companion in opened)

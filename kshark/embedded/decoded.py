"""Read what was decoded inside bytes: a structure's name and fields, next to the field that holds its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET

from kshark.api_keys import FETCH
from kshark.codec.shapes import DECODED
from kshark.model import Message
from kshark.records import RecordsField
from kshark.records.batch import AnyBatch


def decoded(owner: Any, name: str) -> Any:
    """Return the structure that was decoded inside a field's bytes; None if there is none."""
    opened = getattr(owner, name + DECODED, None)
    return opened.get("data") if isinstance(opened, dict) else None


def decoded_fields(owner: Any, name: str) -> Mapping[str, Any]:
    """Return the fields of the structure inside a field's bytes; none if there is none."""
    data = decoded(owner, name)
    return data if isinstance(data, dict) else {}


def decoded_name(owner: Any, name: str) -> str:
    """Return the name of the structure inside a field's bytes, as `ShareSnapshotKey`; empty if there is none."""
    opened = getattr(owner, name + DECODED, None)
    found = opened.get("name") if isinstance(opened, dict) else None
    return found if isinstance(found, str) else ""


def fetched_batches(response: Message) -> Iterator[tuple[int, AnyBatch]]:
    """Yield the opened batches of an answer to Fetch, each with the number of its partition."""
    body: Any = response.body
    topics = getattr(body, "responses", UNSET) if response.api_key == FETCH else UNSET
    for topic in () if topics is UNSET else topics or ():
        for partition in topic.partitions or ():
            field = getattr(partition, "records", None)
            if isinstance(field, RecordsField) and field.batches is not UNSET:
                for batch in field.batches:
                    yield partition.partition_index, batch

"""kio, a second implementation generated from Kafka's definitions, agrees; needs no shared folder.

kio 0.6.5 knows the versions that Kafka 4.3 speaks. It lacks what 4.0 and 4.1 dropped (keys 4 to 7, the oldest versions
of 20 other APIs, version 0 of the share APIs 76 to 79) and what 4.4 adds (keys 93 and 94, and the newest version of
ApiVersions, TxnOffsetCommit, DeleteGroups and both APIs of Kafka Streams groups): those are held against the
definitions alone."""

from __future__ import annotations

import dataclasses
import importlib
import re
import types
import typing
from typing import Any

import pytest

from kshark_dissectors.index import INDEX
from tests.dissectors.kafka_json import Row
from tests.dissectors.schema_rows import WRITTEN, dissector, schema_rows, span

#: kio's own types for a number with a meaning.
PLAIN = {"error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
NAMED_OTHERWISE = {
    "id": "id_",
    "type": "type_",
    "kraft_version": "k_raft_version",
    "kraft_version_feature": "k_raft_version_feature",
    "generation_id_or_member_epoch": "generation_id",
    "acceptable_recovery_lag_legacy": "acceptable_recovery_lag",
}
#: kio takes a time of -1 for null, and does not see that a tagged array may be null.
NULLABLE_OTHERWISE = {"log_append_time", "cordoned_log_dirs"}
UNKNOWN_TO_KIO = {
    *("LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"),
    *("StreamsGroupTopologyDescriptionUpdate", "UnregisterController"),
}


def kio_class(key: int, version: int, direction: str) -> Any:
    """kio's class of a body, None where it has none."""
    name = INDEX[key][0]
    try:
        module = importlib.import_module(f"kio.schema.{WRITTEN[key]}.v{version}.{direction}")
    except ModuleNotFoundError:
        return None
    return getattr(module, f"{name}{direction.capitalize()}")


def kio_rows(cls: Any) -> tuple[Row, ...]:
    """A kio class as rows; defaults are left to the definitions."""
    hints = typing.get_type_hints(cls)
    return tuple(kio_row(field, hints[field.name]) for field in dataclasses.fields(cls))


def kio_row(field: dataclasses.Field[Any], hint: Any) -> Row:
    nullable = False
    if isinstance(hint, types.UnionType):
        nullable = True
        (hint,) = (kind for kind in typing.get_args(hint) if kind is not types.NoneType)
    repeated = typing.get_origin(hint) is tuple
    inner = typing.get_args(hint)[0] if repeated else hint
    nested = dataclasses.is_dataclass(inner)
    kind = "struct" if nested else field.metadata["kafka_type"]
    return Row(
        field.name,
        ("[]" if repeated else "") + PLAIN.get(kind, kind),
        nullable and kind != "uuid",  # kio's null for the zero uuid
        field.metadata.get("tag"),
        None,
        kio_rows(inner) if nested else (),
    )


def comparable(row: Row) -> Row:
    """Without the unit of a time, which kio's type carries, and under kio's name where that is older or another
    spelling."""
    name = re.sub("_ms$", "", row.name)
    nullable = row.nullable and name not in NULLABLE_OTHERWISE
    return row._replace(
        name=NAMED_OTHERWISE.get(name, name), nullable=nullable, default=None, rows=tuple(map(comparable, row.rows))
    )


@pytest.mark.sweep(quick=15)
@pytest.mark.parametrize("key", sorted(key for key in WRITTEN if INDEX[key][0] not in UNKNOWN_TO_KIO))
def test_kio_agrees_on_every_version_it_knows(key: int) -> None:
    compared = 0
    for direction, layout in (("request", dissector(key).request), ("response", dissector(key).response)):
        for version in span(layout.versions):
            theirs = kio_class(key, version, direction)
            if theirs is None:
                continue
            ours = schema_rows(layout.root, version)
            assert tuple(map(comparable, ours)) == tuple(map(comparable, kio_rows(theirs))), f"{layout.name} {version}"
            assert theirs.__flexible__ == (version in layout.flexible), f"{layout.name} {version}"
            compared += 1
    assert compared

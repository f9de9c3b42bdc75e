"""The log of Delta tables: each table of a folder is one, DIR/exchanges with DIR/exchanges/_delta_log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from kshark.capture.paths import is_remote, named, parted
from kshark.errors import Unwritable
from kshark.output.manifest import Content, Manifest
from kshark.output.parquet import arrow_schema
from kshark.output.parquet_partitions import TYPES, values_of
from kshark.output.table_logs import Changes
from kshark.tables import TABLES

#: The writer, by which a table notes the number of the manifest's last commit.
_APP: Final = "kshark"
#: Settings of a path, as Delta names them.
_SETTINGS: Final = {
    "endpoint_override": "AWS_ENDPOINT_URL",
    "region": "AWS_REGION",
    "anonymous": "AWS_SKIP_SIGNATURE",
}
#: How long to wait for a store that does not answer.
_PATIENCE: Final = {"connect_timeout": "3s", "timeout": "30s", "max_retries": "3", "retry_timeout": "30s"}


class Log:
    """The logs of a folder's tables."""

    format = "delta"

    def __init__(self, folder: str, partition_by: Sequence[str]) -> None:
        self._name, self._by = folder, [*partition_by]
        path, settings = parted(folder)
        self._root = path.replace("s3a://", "s3://", 1) if is_remote(named(path)) else str(Path(named(path)).absolute())
        self._options = _options(dict(parse_qsl(settings))) if is_remote(self._root) else {}

    def follow(self, manifest: Manifest) -> None:
        for name, content in manifest.tables.items():
            try:
                self._follow(manifest, name, content)
            except (DeltaError, OSError, ValueError) as error:
                raise Unwritable(f"{self._name}: the log of {name} cannot be written: {_sentence(error)}") from None

    def _follow(self, manifest: Manifest, name: str, content: Content) -> None:
        uri = f"{self._root}/{name}"
        exists = DeltaTable.is_deltatable(uri, self._options)
        table = DeltaTable(uri, storage_options=self._options) if exists else None
        since = 0 if table is None else table.transaction_version(_APP) or 0
        added, removed = Changes.of(manifest, name, content, since)
        now_ms, changes = time.time_ns() // 1_000_000, not manifest.rearranged
        actions: list[Any] = [
            AddAction(path, file.size_bytes, values_of(path), now_ms, changes, _rows(file.rows))
            for file in added
            for path in [file.path.removeprefix(f"{name}/")]
        ]
        actions += [
            RemoveAction(path, changes, now_ms, partition_values=values_of(path))
            for path in (path.removeprefix(f"{name}/") for path in removed)
        ]
        schema = _schema(name, self._by)
        done = CommitProperties(app_transactions=[Transaction(_APP, manifest.commits)])
        if table is None:
            create_table_with_add_actions(
                uri,
                schema,
                actions,
                partition_by=self._by,
                description=TABLES[name].rows,
                storage_options=self._options,
                commit_properties=done,
            )
        elif added or removed:
            present = {field.name for field in table.schema().fields}
            new = [field for field in schema.fields if field.name not in present]
            if new:
                table.alter.add_columns(new)
            table.create_write_transaction(actions, "append", table.schema(), self._by, commit_properties=done)


def _schema(name: str, by: Sequence[str]) -> Schema:
    fields = Schema.from_arrow(arrow_schema(TABLES[name])).fields
    return Schema([*fields, *(Field(key, PrimitiveType(TYPES[key])) for key in by)])


def _rows(rows: int) -> str:
    """Return a file's statistics."""
    return msgspec.json.encode({"numRecords": rows}).decode()


def _options(settings: dict[str, str]) -> dict[str, str]:
    options = {**_PATIENCE, **{_SETTINGS[name]: value for name, value in settings.items() if name in _SETTINGS}}
    if settings.get("endpoint_override", "").startswith("http://") or settings.get("scheme") == "http":
        options["AWS_ALLOW_HTTP"] = "true"
    if "endpoint_override" in settings:
        options.setdefault("AWS_REGION", "us-east-1")
    return options


def _sentence(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:300]

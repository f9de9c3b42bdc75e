"""Iceberg tables: each table of a folder is one, DIR/exchanges with DIR/exchanges/metadata.

The catalog is `kshark` of pyiceberg's own configuration (`~/.pyiceberg.yaml`, `PYICEBERG_CATALOG__KSHARK__URI`).
Without one it is a file in the folder, DIR/catalog.db, on this machine only. The namespace has the folder's name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import parse_qsl

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from kshark.capture.paths import is_remote, named, parted
from kshark.errors import Error, Unwritable, UsageError
from kshark.output.manifest import Content, Manifest
from kshark.output.parquet import arrow_schema
from kshark.output.table_logs import Changes
from kshark.tables import TABLES

#: The catalog's name in pyiceberg's configuration.
CATALOG: Final = "kshark"
#: The property in which a table notes the number of the manifest's last commit.
_COMMITS: Final = "kshark.commits"
#: Settings of a path, as pyiceberg names them.
_SETTINGS: Final = {"endpoint_override": "s3.endpoint", "region": "s3.region", "anonymous": "s3.anonymous"}


class Log:
    """The tables of a folder in a catalog."""

    format = "iceberg"

    def __init__(self, folder: str, partition_by: Sequence[str]) -> None:
        if partition_by:
            raise UsageError("the files of a partition do not name it, as Iceberg requires; leave out --partition-by")
        path, settings = parted(folder)
        self._name, self._is_remote = folder, is_remote(named(path))
        # not as_uri: pyiceberg takes an escaped character for a part of the name
        self._root = path.rstrip("/") if self._is_remote else f"file://{Path(named(path)).absolute()}"
        if {*self._root} & {*"#?%"}:
            raise UsageError(f"{path}: Iceberg cannot have a folder whose path has #, ? or %; name another one with -o")
        self._settings = {_SETTINGS[name]: value for name, value in parse_qsl(settings) if name in _SETTINGS}
        if "s3.endpoint" in self._settings:  # pyiceberg would ask Amazon for the bucket's region
            self._settings.setdefault("s3.region", os.environ.get("AWS_REGION", "us-east-1"))
        self._is_configured = Config().get_catalog_config(CATALOG) is not None
        if self._is_remote and not self._is_configured:
            raise UsageError(
                f"Iceberg tables in a store need a catalog; set PYICEBERG_CATALOG__{CATALOG.upper()}__URI, as "
                "pyiceberg documents it"
            )
        self.namespace: Final = re.sub(r"\W+", "_", PurePosixPath(path).name) or CATALOG

    def follow(self, manifest: Manifest) -> None:
        try:
            for name, content in manifest.tables.items():
                self._follow(manifest, name, content)
        except Error:
            raise
        except Exception as error:  # catalogs raise errors of many packages
            text = str(error).strip().split("\n", 1)[0][:300] or type(error).__name__
            raise Unwritable(f"{self._name}: the Iceberg tables cannot be written: {text}") from None

    @cached_property
    def _catalog(self) -> Catalog:
        if self._is_configured:
            catalog = load_catalog(CATALOG, **self._settings)
        else:
            path = Path(named(parted(self._name)[0])).absolute() / "catalog.db"
            catalog = load_catalog(CATALOG, type="sql", uri=f"sqlite:///{path}", warehouse=self._root)
        catalog.create_namespace_if_not_exists(self.namespace)
        return catalog

    def _follow(self, manifest: Manifest, name: str, content: Content) -> None:
        table = self._table(name)
        added, removed = Changes.of(manifest, name, content, int(table.properties.get(_COMMITS, 0)))
        if not added and not removed:
            return
        paths = [f"{self._root}/{file.path}" for file in added]
        with table.transaction() as transaction:
            if removed:
                gone = {f"{self._root}/{path}" for path in removed}
                files = {task.file.file_path: task.file for task in table.scan().plan_files()}
                with transaction.update_snapshot().overwrite() as overwrite:
                    for path in gone & files.keys():
                        overwrite.delete_data_file(files[path])
            if paths:
                transaction.add_files(paths, check_duplicate_files=False)
            transaction.set_properties({_COMMITS: str(manifest.commits)})

    def _table(self, name: str) -> Table:
        """Return a table with all columns of this version."""
        schema: Any = arrow_schema(TABLES[name])
        location = f"{self._root}/{name}"
        try:
            table = self._catalog.load_table((self.namespace, name))
        except NoSuchTableError:
            return self._catalog.create_table(
                (self.namespace, name), schema, location=location, properties={"comment": TABLES[name].rows}
            )
        if table.location().rstrip("/") != location:
            raise UsageError(
                f"the catalog has {self.namespace}.{name} in {table.location()}; use another name for the folder"
            )
        if {*schema.names} - {field.name for field in table.schema().fields}:
            with table.update_schema() as update:
                update.union_by_name(schema)
        return table

"""Find dissectors: from api key to Api; each is imported when its first message arrives.

Names and versions of all of Kafka's APIs are data (kshark_dissectors.index), so that a frame's header can be checked
without importing a dissector. Users add dissectors as files, or in packages installed under the entry-point group
`kshark.dissectors`; a key or name that another dissector has is refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache, cached_property, lru_cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from kshark.errors import SchemaError
from kshark.places import OpaqueField, structures
from kshark.schema import Api, Layout, Versions, versions_of

#: Entry points of this group are Api objects.
GROUP: Final = "kshark.dissectors"
#: Prefix of the paths of this package's files; the files of kshark_dissectors have another.
_HERE: Final = f"{Path(__file__).parent}{os.sep}"


class ApiEntry(Struct, frozen=True):
    """An API as known without importing its dissector.

    `module` is empty if there is none; `api` is set once the dissector is imported.
    """

    name: str
    versions: Versions
    module: str
    api: Api | None = None


class Registry:
    """Kafka's APIs, and the APIs that `files` and installed packages add.

    `installed` False leaves installed packages out. Raises SchemaError for a broken dissector, or for one whose key or
    name another one has.
    """

    def __init__(self, files: Iterable[str | Path] = (), *, installed: bool = True) -> None:
        index = import_module("kshark_dissectors.index").INDEX
        self._entries = {
            key: ApiEntry(name, versions_of(versions), module and f"kshark_dissectors.{module}")
            for key, (name, module, versions) in index.items()
        }
        for api, origin in _installed() if installed else ():
            self.add(api, origin)
        for path in files:
            self.add(_from_file(Path(path)), str(path))

    def add(self, api: Api, origin: str) -> None:
        """Add a dissector; `origin` names its source in an error."""
        entry = self._entries.get(api.key)
        if entry is not None and (entry.module or entry.api):
            raise SchemaError(f"{origin}: api key {api.key} already belongs to {entry.name}")
        for key, other in self._entries.items():
            if other.name.lower() == api.name.lower() and key != api.key:
                raise SchemaError(f"{origin}: the name {api.name} already belongs to api key {key}")
        self._entries[api.key] = ApiEntry(api.name, api.versions, "", api)

    def api(self, key: int) -> Api | None:
        """Return the dissector, imported now if necessary; None if there is none."""
        entry = self._entries.get(key)
        if entry is None or entry.api is not None or not entry.module:
            return None if entry is None else entry.api
        api: Api = import_module(entry.module).DISSECTOR
        self._entries[key] = replace(entry, api=api)
        return api

    def about(self, key: int) -> str:
        """Return the purpose of the API, in a sentence or two; empty if the dissector does not give one."""
        api, entry = self.api(key), self._entries.get(key)
        if api is None or entry is None or api.about or not entry.module:
            return "" if api is None else api.about
        text = " ".join((import_module(entry.module).__doc__ or "").split()).partition(": ")[2]
        return text[:1].upper() + text[1:]

    def find(self, name: str) -> int | None:
        """Return the key of the API with this name, in upper or lower case; None if there is none."""
        return next((key for key, entry in self._entries.items() if entry.name.lower() == name.lower()), None)

    def name(self, key: int) -> str | None:
        """Return the API's name; None for a key that no Kafka release has."""
        entry = self._entries.get(key)
        return None if entry is None else entry.name

    def names(self) -> dict[int, str]:
        """Return the names of all APIs by key, including those without a dissector."""
        return {key: entry.name for key, entry in self._entries.items()}

    def versions(self, key: int) -> Versions | None:
        """Return all versions that any release supports; None for an unknown key."""
        entry = self._entries.get(key)
        return None if entry is None else entry.versions

    def knows(self, key: int, version: int) -> bool:
        """True if any Kafka release has this API in this version; imports nothing."""
        entry = self._entries.get(key)
        return entry is not None and version in entry.versions

    def places(self, key: int, kind: str) -> tuple[OpaqueField, ...]:
        """Return the fields of this API's requests or responses whose bytes hold structures."""
        return self._places.get((key, kind), ())

    def structure(self, name: str) -> Layout | None:
        """Return the layout of a structure inside bytes, by Kafka's name of it."""
        return self._structures.get(name)

    def structures(self) -> dict[str, Layout]:
        """Return the layouts of all structures inside bytes, by Kafka's names of them."""
        return self._structures

    @cached_property
    def own_topics(self) -> frozenset[str]:
        """Kafka's internal topics: the topic decides how their records are read."""
        return frozenset(
            name for places in self._places.values() for place in places if place.by for name in place.holds
        )

    @cached_property
    def _places(self) -> dict[tuple[int, str], tuple[OpaqueField, ...]]:
        places: dict[tuple[int, str], tuple[OpaqueField, ...]] = import_module(
            "kshark_dissectors.embedded.places"
        ).PLACES
        return places

    @cached_property
    def _structures(self) -> dict[str, Layout]:
        return {layout.name: layout for inside in self._places.values() for _, layout in structures(inside)}

    @cached_property
    def request_header(self) -> Layout:
        """The layout of a request's header."""
        layout: Layout = import_module("kshark_dissectors.headers").REQUEST_HEADER
        return layout

    @cached_property
    def response_header(self) -> Layout:
        """The layout of a response's header."""
        layout: Layout = import_module("kshark_dissectors.headers").RESPONSE_HEADER
        return layout


@cache
def kafka_registry() -> Registry:
    """Return Kafka's own APIs, without installed dissectors."""
    return Registry(installed=False)


@lru_cache(1)
def _may_be_installed(folders: tuple[str, ...]) -> bool:
    """True if any installed package names the entry-point group.

    It takes 1 ms; importlib.metadata takes 23 ms to find none.
    """
    for folder in folders:
        try:
            names = os.listdir(folder or ".")
        except NotADirectoryError:
            return True  # a zip file; the library reads it
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")) and _names_group(os.path.join(folder, name)):
                return True
    return False


def _names_group(package: str) -> bool:
    """True if the description of an installed package names the entry-point group."""
    try:
        with open(os.path.join(package, "entry_points.txt"), "rb") as file:
            return GROUP.encode() in file.read()
    except (FileNotFoundError, NotADirectoryError):
        return False


def _installed() -> Iterator[tuple[Api, str]]:
    if not _may_be_installed(tuple(sys.path)):
        return
    from importlib.metadata import entry_points

    for entry_point in entry_points(group=GROUP):
        origin = f"entry point {entry_point.name} of {GROUP}"
        try:
            loaded = entry_point.load()
        except Exception as error:
            raise SchemaError(f"{origin}: {_described(error)}") from error
        yield _api(loaded, origin), origin


def _from_file(path: Path) -> Api:
    spec = spec_from_file_location(f"kshark_dissector_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SchemaError(f"{path}: not a Python file (a dissector is a .py file that sets DISSECTOR)")
    if not path.is_file():
        raise SchemaError(f"{path}: there is no such file")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise SchemaError(f"{path}: {_described(error)}") from error
    return _api(getattr(module, "DISSECTOR", None), str(path))


def _api(dissector: Any, origin: str) -> Api:
    if not isinstance(dissector, Api):
        raise SchemaError(f"{origin}: no DISSECTOR made by kshark.schema.api")
    return dissector


def _described(error: Exception) -> str:
    """Describe an error in a user's file, with the line where it arose."""
    from traceback import extract_tb  # 1 ms, rarely needed

    if isinstance(error, SyntaxError):
        file, line = error.filename or "", error.lineno
    else:
        frames = [
            frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith((_HERE, "<frozen"))
        ]
        file, line = (frames[-1].filename, frames[-1].lineno) if frames else ("", None)
    position = f"{Path(file).name}, line {line}: " if file else ""
    return (
        f"{position}{error}"
        if isinstance(error, SchemaError)
        else f"{position}{type(error).__name__}: {getattr(error, 'msg', error)}"
    )

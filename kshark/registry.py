"""Finds dissectors: from api key to Api, each imported when its first message comes.

Names and versions of all of Kafka's APIs are data (kshark_dissectors.index), so that a frame's header can be checked
without importing any dissector. Users' own dissectors come as files, or installed under the entry-point group
`kshark.dissectors`; a key or name that is taken is refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache, cached_property, lru_cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from kshark.errors import SchemaError
from kshark.places import OpaqueField, structures
from kshark.schema import Api, Layout, Versions, versions_of

#: Entry points of this group are Api objects.
GROUP: Final = "kshark.dissectors"
#: How the paths of this package's files begin; those of kshark_dissectors do not.
_HERE: Final = f"{Path(__file__).parent}{os.sep}"


class ApiEntry(Struct, frozen=True):
    """What is known of an API without importing its dissector; `module` is empty if there is none, `api` is set once it
    is imported."""

    name: str
    versions: Versions
    module: str
    api: Api | None = None


class Registry:
    """Kafka's APIs, and those that `files` and installed packages add (`installed` False: without those).

    Raises SchemaError for a broken dissector, or one whose key or name another one has.
    """

    def __init__(self, files: Iterable[str | Path] = (), *, installed: bool = True) -> None:
        index = import_module("kshark_dissectors.index").INDEX
        self._known = {
            key: ApiEntry(name, versions_of(versions), module and f"kshark_dissectors.{module}")
            for key, (name, module, versions) in index.items()
        }
        for api, origin in _installed() if installed else ():
            self.add(api, origin)
        for path in files:
            self.add(_from_file(Path(path)), str(path))

    def add(self, api: Api, origin: str) -> None:
        """Adds a dissector; `origin` says in an error where it comes from."""
        known = self._known.get(api.key)
        if known is not None and (known.module or known.api):
            raise SchemaError(f"{origin}: api key {api.key} is {known.name} already")
        for key, other in self._known.items():
            if other.name.lower() == api.name.lower() and key != api.key:
                raise SchemaError(f"{origin}: the name {api.name} belongs to api key {key} already")
        self._known[api.key] = ApiEntry(api.name, api.versions, "", api)

    def api(self, key: int) -> Api | None:
        """The dissector, imported now if necessary; None if there is none."""
        known = self._known.get(key)
        if known is None or known.api is not None or not known.module:
            return None if known is None else known.api
        api: Api = import_module(known.module).DISSECTOR
        self._known[key] = replace(known, api=api)
        return api

    def about(self, key: int) -> str:
        """What the API is for, in a sentence or two; empty if the dissector does not say."""
        api, known = self.api(key), self._known.get(key)
        if api is None or known is None or api.about or not known.module:
            return "" if api is None else api.about
        told = " ".join((import_module(known.module).__doc__ or "").split()).partition(": ")[2]
        return told[:1].upper() + told[1:]

    def find(self, name: str) -> int | None:
        """The key of the API with that name; upper and lower case are the same."""
        return next((key for key, known in self._known.items() if known.name.lower() == name.lower()), None)

    def name(self, key: int) -> str | None:
        """The API's name; None for a key that no Kafka release has."""
        known = self._known.get(key)
        return None if known is None else known.name

    def names(self) -> dict[int, str]:
        """All APIs' names by key, those without a dissector too."""
        return {key: known.name for key, known in self._known.items()}

    def versions(self, key: int) -> Versions | None:
        """All versions that any release spoke."""
        known = self._known.get(key)
        return None if known is None else known.versions

    def knows(self, key: int, version: int) -> bool:
        """Whether any Kafka release has this API in this version; imports nothing."""
        known = self._known.get(key)
        return known is not None and version in known.versions

    def places(self, key: int, kind: str) -> tuple[OpaqueField, ...]:
        """Where structures lie inside the bytes of that API's requests or responses."""
        return self._places.get((key, kind), ())

    def structure(self, name: str) -> Layout | None:
        """The layout of a structure inside bytes, by Kafka's name of it."""
        return self._structures.get(name)

    def structures(self) -> dict[str, Layout]:
        """The layouts of all structures inside bytes, by Kafka's names of them."""
        return self._structures

    @cached_property
    def own_topics(self) -> frozenset[str]:
        """Topics of Kafka's own: how their records are read depends on the topic."""
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
    """Kafka's APIs alone."""
    return Registry(installed=False)


@lru_cache(1)
def _may_be_installed(folders: tuple[str, ...]) -> bool:
    """Whether any installed package names the entry-point group: 2 ms, where importlib.metadata takes 23 to find
    none."""
    for folder in map(Path, folders):
        if folder.is_file():
            return True  # a zip, which the library looks into
        for told in (*folder.glob("*.dist-info/entry_points.txt"), *folder.glob("*.egg-info/entry_points.txt")):
            if GROUP in told.read_text("utf-8", "replace"):
                return True
    return False


def _installed() -> Iterator[tuple[Api, str]]:
    if not _may_be_installed(tuple(sys.path)):
        return
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        origin = f"entry point {entry.name} of {GROUP}"
        try:
            loaded = entry.load()
        except Exception as error:
            raise SchemaError(f"{origin}: {_told(error)}") from error
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
        raise SchemaError(f"{path}: {_told(error)}") from error
    return _api(getattr(module, "DISSECTOR", None), str(path))


def _api(found: Any, origin: str) -> Api:
    if not isinstance(found, Api):
        raise SchemaError(f"{origin}: no DISSECTOR made by kshark.schema.api")
    return found


def _told(error: Exception) -> str:
    """An error in a user's file, with the line where it arose."""
    if isinstance(error, SyntaxError):
        file, line = error.filename or "", error.lineno
    else:
        frames = [
            frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith((_HERE, "<frozen"))
        ]
        file, line = (frames[-1].filename, frames[-1].lineno) if frames else ("", None)
    place = f"{Path(file).name}, line {line}: " if file else ""
    return (
        f"{place}{error}"
        if isinstance(error, SchemaError)
        else f"{place}{type(error).__name__}: {getattr(error, 'msg', error)}"
    )

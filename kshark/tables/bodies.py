"""Bodies as `exchanges` holds them, back from JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from kshark.codec.shapes import shape_of
from kshark.registry import Registry

_Read = Callable[[str], Any]


class Fields:
    """A body whose class is not known: its fields as attributes, UNSET if absent; bytes stay base64."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__ = fields

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return UNSET


def as_fields(text: str) -> Any:
    """Fields, and fields in them."""
    return json.loads(text, object_hook=Fields)


class Bodies:
    """Reads bodies into the classes of the codec; where the API is not known, or the text is no such body, into
    Fields."""

    def __init__(self) -> None:
        self._registry = Registry()
        self._readers: dict[tuple[Any, ...], _Read] = {}

    def read(self, row: Mapping[str, Any], kind: str) -> Any:
        """The body of the `request` or `response` in a row of `exchanges`; None if it was not read."""
        text = row[f"{kind}_json"]
        if text is None:
            return None
        key = row["api_key"], row["api_version"], kind
        read = self._readers.get(key)
        if read is None:
            read = self._readers[key] = self._reader(*key)
        try:
            return read(text)
        except msgspec.ValidationError:
            return as_fields(text)

    def _reader(self, api_key: int | None, version: int | None, kind: str) -> _Read:
        api = None if api_key is None else self._registry.api(api_key)
        if api is None or version is None:
            return as_fields
        layout = api.request if kind == "request" else api.response
        return msgspec.json.Decoder(shape_of(layout, api.versions.nearest(version)).make).decode

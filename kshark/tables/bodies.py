"""Bodies of messages, decoded from the JSON in `exchanges`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from kshark.codec.shapes import shape_of
from kshark.registry import Registry

_Read = Callable[[str], Any]


class JsonFields:
    """A body without a known class: its fields as attributes, UNSET if absent; bytes stay base64."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__ = fields

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return UNSET


def as_fields(text: str) -> Any:
    """Decode JSON objects as Fields, at any depth."""
    return json.loads(text, object_hook=JsonFields)


class Bodies:
    """Decode bodies into the classes of the codec; into Fields if the API is unknown or the text does not fit."""

    def __init__(self) -> None:
        self._registry = Registry()
        self._readers: dict[tuple[Any, ...], _Read] = {}

    def read(self, row: Mapping[str, Any], kind: str) -> Any:
        """Return the body of the `request` or `response` in a row of `exchanges`; None if it was not decoded."""
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

"""Rewrite the bodies of messages: each string, uuid and bytes field by its place in the schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kshark.anonymous.fields import (
    COORDINATORS,
    DROPPED,
    KEPT,
    KEPT_NAMES,
    KEPT_VALUE,
    KIND_OF,
    KIND_OF_NAME,
    RESOURCES,
    SENTENCES,
    SHARE_KEY,
    TOPIC_SETTINGS,
)
from kshark.anonymous.pseudonyms import Pseudonyms
from kshark.anonymous.records import without_payload
from kshark.codec.shapes import UNKNOWN_TAGS
from kshark.schema import Field, Layout

_SHARE_KEY: Final = re.compile(r"(.*):([A-Za-z0-9_-]{22}):(-?\d+)", re.DOTALL)


def anonymous_body(
    layout: Layout, body: Mapping[str, Any], names: Pseudonyms, key_type: int | None = None
) -> dict[str, Any]:
    """Return a body, as kshark.decode returns it, with pseudonyms, and zero bytes instead of payload.

    `key_type`: of an answer to FindCoordinator, what its request asked for.
    """
    return _Body(names, body.get("key_type", key_type)).struct(layout.root, body, "")


class _Body:
    """The fields of one body."""

    def __init__(self, names: Pseudonyms, key_type: int | None) -> None:
        self._names = names
        self._key_type = key_type

    def struct(self, field: Field, value: Mapping[str, Any], parent: str) -> dict[str, Any]:
        by_name = {it.name: it for it in field.fields}
        return {
            name: _zeroed_tags(content)
            if name == UNKNOWN_TAGS or name not in by_name
            else self._value(by_name[name], content, value, name, parent)
            for name, content in value.items()
        }

    def _value(self, field: Field, content: Any, beside: Mapping[str, Any], name: str, parent: str) -> Any:
        if content is None:
            return None
        match field.type:
            case "array":
                element = field.element
                assert element is not None
                return [self._value(element, it, beside, name, parent) for it in content]
            case "struct":
                return self.struct(field, content, name)
            case "uuid":
                return self._names.of("id", content)
            case "records":
                return without_payload(content)
            case "bytes":
                return bytes(len(content))
            case "string":
                return self._string(content, beside, name, parent)
        return content

    def _string(self, text: str, beside: Mapping[str, Any], name: str, parent: str) -> str:
        if name in DROPPED:
            return ""
        if name in SENTENCES:
            return self._names.sentence(text)
        if name in KEPT or (name == "name" and parent in KEPT_NAMES):
            return text
        if name == "value" and str(beside.get("name", "")).endswith(TOPIC_SETTINGS):
            return self._names.of("topic", text)
        if name == "value":
            return text if re.fullmatch(KEPT_VALUE, text) else ""
        if name in ("resource_name", "resource_name_filter"):
            kind = beside.get("resource_type", beside.get("resource_type_filter"))
            return text if str(text).isdigit() else self._names.of(RESOURCES.get(kind or 0, "text"), text)
        if name in ("key", "coordinator_keys"):
            return self._coordinator_key(text)
        if name == "name":
            return self._names.of(KIND_OF_NAME.get(parent, "topic"), text)
        return self._names.of(KIND_OF.get(name, "text"), text)

    def _coordinator_key(self, text: str) -> str:
        """Return a key of FindCoordinator."""
        key_type = self._key_type
        parts = _SHARE_KEY.fullmatch(text)
        if parts is not None and key_type in (None, SHARE_KEY):
            return f"{self._names.of('group', parts[1])}:{self._names.of('id', parts[2])}:{parts[3]}"
        return self._names.of(COORDINATORS.get(key_type or 0, "group"), text)


def _zeroed_tags(content: Any) -> Any:
    """Return unknown tagged fields with zero bytes."""
    from base64 import b64decode, b64encode

    if not isinstance(content, Mapping):
        return content
    return {tag: b64encode(bytes(len(b64decode(value)))).decode() for tag, value in content.items()}

"""`kshark explain ShareFetch`: the whole page of an API, as text and as an object."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from kshark.output.error_entries import api_error_lines, api_error_objects
from kshark.output.kip_entries import api_kip_lines, api_kip_objects
from kshark.output.layouts import api_lines, field_objects
from kshark.output.releases import life_lines, release_lines, rights_lines
from kshark.output.spans import Line, folded
from kshark.registry import Registry
from kshark.schema import NEVER
from kshark_dissectors.permissions import NEEDED
from kshark_dissectors.releases import RELEASES, SPOKEN

#: Of continued lines about a share group's life.
_INDENT: Final = 6


def api_page(key: int, registry: Registry, width: int | None) -> Iterator[Line]:
    """Return an API's fields, releases, rights, place in a share group's life, proposals, and errors."""
    api = registry.api(key)
    if api is None:
        yield [
            (registry.name(key) or "", "api"),
            (f"  API {key} · versions {registry.versions(key)} · kshark does not decode its body", ""),
        ]
        yield from release_lines(key)
        return
    yield from api_lines(api, registry, width)
    yield from release_lines(key)
    yield from rights_lines(key)
    yield from chain.from_iterable(folded(line, width, _INDENT) for line in life_lines(key, registry))
    yield from api_kip_lines(key, width)
    yield from api_error_lines(key, width)


def api_object(key: int, registry: Registry) -> dict[str, Any]:
    """Return an API as an object; `request` and `response` are None if kshark does not decode its body."""
    api = registry.api(key)
    return {
        "api_key": key,
        "api": registry.name(key),
        "versions": str(registry.versions(key)),
        "flexible": None if api is None or api.flexible == NEVER else str(api.flexible & api.versions),
        "kip": None if api is None else api.kip or None,
        "about": registry.about(key) or None,
        "request": None if api is None else field_objects(api.request),
        "response": None if api is None else field_objects(api.response),
        "releases": dict(zip(RELEASES, SPOKEN[key], strict=True)) if key in SPOKEN else {},
        "rights": [
            {"operation": operation.name, "resource": resource.name}
            for resource, operation in NEEDED.get(key, {}).items()
        ],
        "changed_by": api_kip_objects(key),
        "errors": api_error_objects(key),
    }

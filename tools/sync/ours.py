"""All layouts of the dissectors, by Kafka's message name, with their number on the wire."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from kshark.places import OpaqueField, structures
from kshark.registry import Registry
from kshark.schema import Layout


class Ours(NamedTuple):
    """`key` is the api key or the record type, None if it has neither."""

    layout: Layout
    key: int | None


def our_layouts() -> dict[str, Ours]:
    """Return the layouts of Kafka's APIs, headers, and structures inside byte fields."""
    registry = Registry(installed=False)
    layouts = {layout.name: Ours(layout, None) for layout in (registry.request_header, registry.response_header)}
    for key in registry.names():
        api = registry.api(key)
        if api is not None:
            layouts |= {layout.name: Ours(layout, key) for layout in (api.request, api.response)}
    places: dict[tuple[int, str], tuple[OpaqueField, ...]] = import_module("kshark_dissectors.embedded.places").PLACES
    for inside in places.values():
        layouts |= {layout.name: Ours(layout, number) for number, layout in structures(inside)}
    return layouts

"""All layouts of the dissectors by Kafka's name of the message, with the number that stands for them on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import NamedTuple

from kshark.places import Foreign, Holding, Place, Structure
from kshark.registry import Registry
from kshark.schema import Layout


class Ours(NamedTuple):
    """`key` is the api key or the record type, None for what has neither."""

    layout: Layout
    key: int | None


def our_layouts() -> dict[str, Ours]:
    """Kafka's APIs, headers, and every structure that lies in a place."""
    registry = Registry(installed=False)
    found = {layout.name: Ours(layout, None) for layout in (registry.request_header, registry.response_header)}
    for key in registry.names():
        api = registry.api(key)
        if api is not None:
            found |= {layout.name: Ours(layout, key) for layout in (api.request, api.response)}
    places: dict[tuple[int, str], tuple[Place, ...]] = import_module("dissectors.embedded.places").PLACES
    for inside in places.values():
        found |= {ours.layout.name: ours for ours in _in_places(inside)}
    return found


def _in_places(places: Iterable[Place]) -> Iterator[Ours]:
    for place in places:
        for holding in (*place.holds.values(), *((place.control,) if place.control else ())):
            yield from _held(holding)


def _held(holding: Holding) -> Iterator[Ours]:
    if isinstance(holding, Foreign):
        return
    if isinstance(holding, Structure):
        yield Ours(holding.layout, None)
        yield from _in_places(holding.inside)
        return
    for type, (key, value) in holding.types.items():
        if key is not None:
            yield Ours(key, type)
        yield Ours(value.layout, type)
        yield from _in_places(value.inside)

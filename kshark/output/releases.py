"""`kshark explain`: of an API the Kafka releases that have it, the rights that it needs, and its place in the life of a
share group.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from kshark.output.spans import API, DIM, LABEL, PLAIN, VALUE, Line
from kshark.registry import Registry
from kshark_dissectors.permissions import NEEDED
from kshark_dissectors.releases import RELEASES, SPOKEN
from kshark_dissectors.share_life import LIFE, LifeStep

_UNSTABLE: Final = "*"


def release_lines(key: int) -> Iterator[Line]:
    """Return the releases that support an API, one line for equal versions; nothing for APIs outside Kafka."""
    if key not in SPOKEN:
        return
    yield []
    yield [("releases", API), ("  of Kafka, and the versions that they support", DIM)]
    runs = [
        (versions, [name for name, _ in run])
        for versions, run in groupby(zip(RELEASES, SPOKEN[key], strict=True), itemgetter(1))
    ]
    spans = [(names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", versions) for versions, names in runs]
    width = max(len(span) for span, _ in spans)
    for span, versions in spans:
        line: Line = [("  " + span.ljust(width) + "  ", LABEL)]
        if not versions:
            yield [*line, ("not supported", DIM)]
        elif versions.endswith(_UNSTABLE):
            yield [
                *line,
                (versions.removesuffix(_UNSTABLE), VALUE),
                (f"  {_last(versions)} if unstable versions are enabled", DIM),
            ]
        else:
            yield [*line, (versions, VALUE)]


def _last(versions: str) -> str:
    return versions.removesuffix(_UNSTABLE).rpartition("-")[2]


def rights_lines(key: int) -> Iterator[Line]:
    """Return the rights that a client needs for an API; nothing if it needs none."""
    needed = NEEDED.get(key)
    if needed is None:
        return
    yield []
    yield [("rights", API), ("  that a client needs (kafka-acls) for what the request is about", DIM)]
    for resource, operation in needed.items():
        yield [(f"  {operation.name}", VALUE), (f" on {resource.name}", PLAIN)]


def life_lines(key: int, registry: Registry) -> Iterator[Line]:
    """Return the steps of a share group's life that use an API, each with its neighbours; nothing if there are none."""
    indexes = [index for index, step in enumerate(LIFE) if key in step.apis]
    if not indexes:
        return
    yield []
    yield [("in a share group's life", API), ("  kshark explain life shows all of it", DIM)]
    for index in indexes:
        yield _step(index, LIFE[index])
        neighbours = [
            (word, LIFE[neighbour])
            for word, neighbour in (("after", index - 1), ("before", index + 1))
            if 0 <= neighbour < len(LIFE)
        ]
        yield [("      " + ", ".join(f"{word} {_apis(step, registry)}" for word, step in neighbours), DIM)]


def whole_life_lines(registry: Registry) -> Iterator[Line]:
    """Return all steps, with their APIs."""
    yield [("the life of a share group", API), ("  KIP-932", DIM)]
    for index, step in enumerate(LIFE):
        yield [(f"{index + 1:>4}  ", DIM), (_apis(step, registry), VALUE), (f"  {step.who}", LABEL)]
        yield [("      " + step.what, PLAIN)]


def _step(index: int, step: LifeStep) -> Line:
    return [(f"{index + 1:>4}  ", DIM), (f"{step.who}: ", LABEL), (step.what, PLAIN)]


def _apis(step: LifeStep, registry: Registry) -> str:
    return " and ".join(registry.name(key) or str(key) for key in step.apis)

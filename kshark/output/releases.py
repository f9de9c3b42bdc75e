"""`kshark explain`: which releases of Kafka speak which versions of an API, and its place in the life of a share
group."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from kshark.output.spans import API, DIM, LABEL, PLAIN, VALUE, Line
from kshark.registry import Registry
from kshark_dissectors.releases import RELEASES, SPOKEN
from kshark_dissectors.share_life import LIFE, LifeStep

_UNSTABLE: Final = "*"


def release_lines(key: int) -> Iterator[Line]:
    """The releases that speak an API, those with equal versions in one line; nothing for APIs that are not Kafka's."""
    if key not in SPOKEN:
        return
    yield []
    yield [("releases", API), ("  of Kafka, and the versions that they speak", DIM)]
    runs = [
        (versions, [name for name, _ in run])
        for versions, run in groupby(zip(RELEASES, SPOKEN[key], strict=True), itemgetter(1))
    ]
    spans = [(names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", versions) for versions, names in runs]
    width = max(len(span) for span, _ in spans)
    for span, versions in spans:
        line: Line = [("  " + span.ljust(width) + "  ", LABEL)]
        if not versions:
            yield [*line, ("not spoken", DIM)]
        elif versions.endswith(_UNSTABLE):
            yield [
                *line,
                (versions.removesuffix(_UNSTABLE), VALUE),
                (f"  {_last(versions)} where unstable versions are switched on", DIM),
            ]
        else:
            yield [*line, (versions, VALUE)]


def _last(versions: str) -> str:
    return versions.removesuffix(_UNSTABLE).rpartition("-")[2]


def life_lines(key: int, registry: Registry) -> Iterator[Line]:
    """The steps of a share group's life that an API performs, each with its neighbours; nothing if there are none."""
    places = [at for at, step in enumerate(LIFE) if key in step.apis]
    if not places:
        return
    yield []
    yield [("in a share group's life", API), ("  kshark explain life shows all of it", DIM)]
    for at in places:
        yield _step(at, LIFE[at])
        around = [
            (word, LIFE[there]) for word, there in (("after", at - 1), ("before", at + 1)) if 0 <= there < len(LIFE)
        ]
        yield [("      " + ", ".join(f"{word} {_apis(step, registry)}" for word, step in around), DIM)]


def whole_life_lines(registry: Registry) -> Iterator[Line]:
    """All steps, with their APIs."""
    yield [("the life of a share group", API), ("  KIP-932", DIM)]
    for at, step in enumerate(LIFE):
        yield [(f"{at + 1:>4}  ", DIM), (_apis(step, registry), VALUE), (f"  {step.who}", LABEL)]
        yield [("      " + step.what, PLAIN)]


def _step(at: int, step: LifeStep) -> Line:
    return [(f"{at + 1:>4}  ", DIM), (f"{step.who}: ", LABEL), (step.what, PLAIN)]


def _apis(step: LifeStep, registry: Registry) -> str:
    return " and ".join(registry.name(key) or str(key) for key in step.apis)

"""Write series as Prometheus reads them: the text format 0.0.4, or OpenMetrics 1.0.

Sources: prometheus.io/docs/instrumenting/exposition_formats, OpenMetrics 1.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from kshark.live.metrics.families import BUCKETS, Family, Key, Series, Values


class Format(NamedTuple):
    """A format: its content type; `is_open`: OpenMetrics."""

    content_type: str
    is_open: bool


TEXT: Final = Format("text/plain; version=0.0.4; charset=utf-8", False)
OPEN_METRICS: Final = Format("application/openmetrics-text; version=1.0.0; charset=utf-8", True)

#: What the samples of a kind add to the family's name.
_SUFFIXES: Final = {"counter": "_total", "info": "_info", "gauge": "", "histogram": ""}
#: The types of kinds that only OpenMetrics has.
_TEXT_TYPES: Final = {"info": "gauge"}
_BOUNDS: Final = (*(repr(bound) for bound in BUCKETS), "+Inf")


def negotiated(accept: str) -> Format:
    """Return the format that an Accept header prefers; text unless OpenMetrics is preferred."""
    weights = {"text": 0.0, "open": 0.0}
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if media == "application/openmetrics-text":
            version = next((text[8:] for text in parameters if text.startswith("version=")), "1.0.0")
            if version in ("1.0.0", "0.0.1"):
                weights["open"] = max(weights["open"], _weight(parameters))
        elif media in ("text/plain", "text/*", "*/*"):
            weights["text"] = max(weights["text"], _weight(parameters))
    return OPEN_METRICS if weights["open"] > weights["text"] else TEXT


def _weight(parameters: Iterable[str]) -> float:
    try:
        return next((float(text[2:]) for text in parameters if text.startswith("q=")), 1.0)
    except ValueError:
        return 0.0


def exposition(families: Iterable[Family], series: Series, form: Format) -> bytes:
    """Return an answer to a scrape; families without series have their description only."""
    lines = [line for family in families for line in _lines(family, series.get(family.name, {}), form)]
    if form.is_open:
        lines.append("# EOF")
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _lines(family: Family, series: dict[Key, Values], form: Format) -> Iterator[str]:
    sample = family.name + _SUFFIXES[family.kind]
    described = family.name if form.is_open else sample
    kind = family.kind if form.is_open else _TEXT_TYPES.get(family.kind, family.kind)
    text = family.help.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {described} {_quoted(text) if form.is_open else text}"
    yield f"# TYPE {described} {kind}"
    for key, values in series.items():
        if family.kind == "histogram":
            yield from _histogram(family, key, values)
        else:
            yield f"{sample}{_labels(family.labels, key)} {_number(values[0])}"


def _histogram(family: Family, key: Key, values: Values) -> Iterator[str]:
    count, total, *buckets = values
    for bound, below in zip(_BOUNDS, accumulate(buckets), strict=True):
        yield f"{family.name}_bucket{_labels((*family.labels, 'le'), (*key, bound))} {_number(below)}"
    labels = _labels(family.labels, key)
    yield f"{family.name}_count{labels} {_number(count)}"
    yield f"{family.name}_sum{labels} {_number(total)}"


def _labels(names: tuple[str, ...], values: Key) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return _quoted(value.replace("\\", r"\\").replace("\n", r"\n"))


def _quoted(text: str) -> str:
    return text.replace('"', r"\"")


def _number(value: float) -> str:
    """Return a number as exactly as needed: whole numbers without a fraction."""
    return str(int(value)) if value == int(value) else repr(float(value))

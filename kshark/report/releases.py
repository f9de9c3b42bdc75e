"""Which releases of Kafka a broker may run, by the versions that it offers. Source: kshark_dissectors.releases."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from kshark_dissectors.releases import RELEASES, SPOKEN

_UNSTABLE: Final = "*"


def releases_offering(offered: Mapping[int, int]) -> list[str]:
    """Those of which every highest version offered, by API key, is the last one they speak; none where no known release
    fits."""
    known = {key: version for key, version in offered.items() if key in SPOKEN}
    if not known:
        return []
    return [
        release
        for place, release in enumerate(RELEASES)
        if all(version in _last(key, place) for key, version in known.items())
    ]


@cache
def _last(key: int, place: int) -> tuple[int, ...]:
    """The last version of an API in a release; two where the last one is unstable, none where it does not have the
    API."""
    text = SPOKEN[key][place]
    if not text:
        return ()
    last = int(text.removesuffix(_UNSTABLE).rpartition("-")[2])
    return (last - 1, last) if text.endswith(_UNSTABLE) else (last,)

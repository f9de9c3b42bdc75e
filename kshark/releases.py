"""Kafka releases that a broker may run, from the versions that it offers. Source: kshark_dissectors.releases."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from kshark_dissectors.releases import RELEASES, SPOKEN

_UNSTABLE: Final = "*"


def releases_offering(offered: Mapping[int, int]) -> list[str]:
    """Return the releases whose last versions equal the highest offered versions, by API key.

    Empty if no known release matches.
    """
    comparable = {key: version for key, version in offered.items() if key in SPOKEN}
    if not comparable:
        return []
    return [
        release
        for index, release in enumerate(RELEASES)
        if all(version in _last(key, index) for key, version in comparable.items())
    ]


@cache
def _last(key: int, release: int) -> tuple[int, ...]:
    """Return the last version of an API in a release.

    Two versions if the last one is unstable; none if the release does not have the API.
    """
    text = SPOKEN[key][release]
    if not text:
        return ()
    last = int(text.removesuffix(_UNSTABLE).rpartition("-")[2])
    return (last - 1, last) if text.endswith(_UNSTABLE) else (last,)

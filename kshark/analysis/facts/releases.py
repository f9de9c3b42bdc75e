"""Broker releases, as far as share groups behave differently. Only the broker's own answer shows its release.

Sources: KAFKA-19015 (sessions end with their connection), KAFKA-19950 (and with an older one), KAFKA-19159 (no eviction
of idle sessions), KAFKA-19231 (a full cache has its own error code), KAFKA-19456 (epochs of stored state),
apache/kafka#23074 (start offsets).
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Final

from msgspec import Struct

from kshark.analysis.facts.known import Known, known_if
from kshark.api_keys import API_VERSIONS, SHARE_FETCH


class Release(Enum):
    """Lines of releases; the last one includes all later releases."""

    V4_0 = "4.0"
    V4_1 = "4.1"
    V4_2 = "4.2 or 4.3"
    V4_4 = "4.4 or later"


class Behaviour(Struct, frozen=True):
    """The behaviour of a broker release for share sessions and stored state.

    `dies_with_connection`: the session ends when the connection that opened it closes.
    `dies_with_older_connection`: the session also ends when an earlier connection closes whose session it replaced.
    `idle_ns`: a session may be evicted after it was unused for this time; None: never.
    `full_is_not_found`: a full cache refuses epoch 0 with 122; later releases use 133.
    `write_sets_epochs`: a WriteShareGroupState sets the stored state and leader epoch to its own.
    `release_uncounts`: the end of a session releases records and takes their delivery off the delivery count.
    `reads_uuids`: a member id must be a uuid in URL-safe base64 (KafkaApis reads it with Uuid.fromString); later
    releases accept any text.
    `delivers_last_alone`: a record in its last delivery attempt is alone in the answer.
    `keeps_highest_start`: a WriteShareGroupState with a lower start offset does not change the stored one.
    """

    dies_with_connection: bool
    dies_with_older_connection: bool
    idle_ns: int | None
    full_is_not_found: bool
    write_sets_epochs: bool
    release_uncounts: bool
    reads_uuids: bool
    delivers_last_alone: bool
    keeps_highest_start: bool


BEHAVIOUR: Final = {
    Release.V4_0: Behaviour(False, False, 120_000_000_000, True, True, False, True, False, False),
    Release.V4_1: Behaviour(True, True, None, False, True, True, True, False, False),
    Release.V4_2: Behaviour(True, False, None, False, False, False, False, True, False),
    Release.V4_4: Behaviour(True, False, None, False, False, False, False, True, True),
}
ANY_RELEASE: Final = frozenset(Release)
#: APIs whose highest offered version shows the release: the first one, and for the newest releases the second one.
RELEASE_APIS: Final = (SHARE_FETCH, API_VERSIONS)
_BY_SHARE_FETCH: Final = {0: frozenset({Release.V4_0}), 1: frozenset({Release.V4_1})}
_NEWEST: Final = frozenset({Release.V4_2, Release.V4_4})
_API_VERSIONS_SINCE_4_4: Final = 5
#: The releases that answer a share request of a version; the first version was removed when the second came.
_ANSWERING: Final = {0: frozenset({Release.V4_0}), 1: frozenset({Release.V4_1}) | _NEWEST}


@lru_cache(maxsize=64)
def releases_offering(share_fetch: int | None, api_versions: int | None) -> frozenset[Release]:
    """Return the releases whose ApiVersions answer has these highest versions.

    `share_fetch` None (not offered): any release is possible.
    """
    if share_fetch is None:
        return ANY_RELEASE
    if share_fetch in _BY_SHARE_FETCH or api_versions is None:
        return _BY_SHARE_FETCH.get(share_fetch, _NEWEST)
    return frozenset({Release.V4_4 if api_versions >= _API_VERSIONS_SINCE_4_4 else Release.V4_2})


def releases_answering(share_fetch: int) -> frozenset[Release]:
    """Return the releases that answer a ShareFetch of this version."""
    return _ANSWERING.get(share_fetch, _NEWEST)


@lru_cache(maxsize=64)
def both(first: frozenset[Release], second: frozenset[Release]) -> frozenset[Release]:
    """Return the releases that are in both sets. The cache shares one set between sessions."""
    return first & second


@lru_cache(maxsize=64)
def agreed(releases: frozenset[Release], question: str) -> bool | None:
    """Return the value of a Behaviour field if all possible releases agree on it, else None."""
    answers = {bool(getattr(BEHAVIOUR[release], question)) for release in releases}
    return answers.pop() if len(answers) == 1 else None


def release_known(answer: bool | None) -> Known:
    """Return the fact that the release is known as far as this answer of `agreed` depends on it."""
    return known_if(answer is not None, "release_unknown")

"""Broker releases, as far as share groups behave differently; nothing here is guessed from anything but the broker's
own answer.

Sources: KAFKA-19015 (sessions die with their connection), KAFKA-19950 (and with an older one), KAFKA-19159 (no eviction
of idle sessions), KAFKA-19231 (a full cache has its own error code), KAFKA-19456 (epochs of stored state),
apache/kafka#23074 (start offsets)."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Final

from msgspec import Struct

from kshark.api_keys import API_VERSIONS, SHARE_FETCH


class Release(Enum):
    """Lines of releases; the last stands for all later ones."""

    V4_0 = "4.0"
    V4_1 = "4.1"
    V4_2 = "4.2 or 4.3"
    V4_4 = "4.4 or later"


class Behaviour(Struct, frozen=True):
    """What a broker of one release does with share sessions and stored state.

    `dies_with_connection`: the session ends when the connection that opened it closes. `dies_with_older_connection`:
    also when an earlier connection closes, whose session it replaced. `idle_ns`: a session this long unused may give
    way to another; None: never.
    `full_is_not_found`: a full cache refuses epoch 0 with 122, later releases with 133. `write_sets_epochs`: a
    WriteShareGroupState sets the stored state and leader epoch to its own. `release_uncounts`: records that the end of
    a session releases were not delivered by it.
    `reads_uuids`: a member id has to be a uuid in URL-safe base64 (KafkaApis reads it with Uuid.fromString); later it
    is any text.
    `delivers_last_alone`: a record that is delivered for the last time is alone in the answer. `keeps_highest_start`: a
    WriteShareGroupState with a lower start offset leaves the stored one as it is.
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
#: APIs whose highest version that a broker offers tells its release: the first one, and of the newest releases the
#: second.
TELLING: Final = (SHARE_FETCH, API_VERSIONS)
_BY_SHARE_FETCH: Final = {0: frozenset({Release.V4_0}), 1: frozenset({Release.V4_1})}
_NEWEST: Final = frozenset({Release.V4_2, Release.V4_4})
_API_VERSIONS_SINCE_4_4: Final = 5
#: The releases that answer a share request of a version; the first version went when the second came.
_ANSWERING: Final = {0: frozenset({Release.V4_0}), 1: frozenset({Release.V4_1}) | _NEWEST}


@lru_cache(maxsize=64)
def releases_offering(share_fetch: int | None, api_versions: int | None) -> frozenset[Release]:
    """The releases whose ApiVersions answer offers both APIs up to these versions; None (not offered) tells nothing."""
    if share_fetch is None:
        return ANY_RELEASE
    if share_fetch in _BY_SHARE_FETCH or api_versions is None:
        return _BY_SHARE_FETCH.get(share_fetch, _NEWEST)
    return frozenset({Release.V4_4 if api_versions >= _API_VERSIONS_SINCE_4_4 else Release.V4_2})


def releases_answering(share_fetch: int) -> frozenset[Release]:
    """The releases that answer a share request of this version."""
    return _ANSWERING.get(share_fetch, _NEWEST)


@lru_cache(maxsize=64)
def both(one: frozenset[Release], other: frozenset[Release]) -> frozenset[Release]:
    """The releases that are in both; one set for all sessions of which the same is known."""
    return one & other


@lru_cache(maxsize=64)
def agreed(releases: frozenset[Release], question: str) -> bool | None:
    """What the possible releases agree on, by the name of a Behaviour's field; None where they differ."""
    answers = {bool(getattr(BEHAVIOUR[release], question)) for release in releases}
    return answers.pop() if len(answers) == 1 else None

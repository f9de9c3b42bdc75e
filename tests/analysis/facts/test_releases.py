"""Releases of brokers, by what they say of themselves."""

from __future__ import annotations

import pytest

from kshark.analysis.facts.releases import (
    ANY_RELEASE,
    BEHAVIOUR,
    Release,
    agreed,
    releases_answering,
    releases_offering,
)

NEWEST = {"4.2 or 4.3", "4.4 or later"}


@pytest.mark.parametrize(
    ("share_fetch", "api_versions", "releases"),
    [
        (0, 4, {Release.V4_0}),
        (1, 4, {Release.V4_1}),
        (2, 4, {Release.V4_2}),
        (2, 5, {Release.V4_4}),
        (7, 9, {Release.V4_4}),
        (2, None, {Release.V4_2, Release.V4_4}),
        (1, None, {Release.V4_1}),
        (None, 4, set(Release)),
    ],
)
def test_a_release_is_told_by_what_it_offers(
    share_fetch: int | None, api_versions: int | None, releases: set[Release]
) -> None:
    assert releases_offering(share_fetch, api_versions) == releases


def test_only_what_all_possible_releases_agree_on_is_said() -> None:
    assert agreed(frozenset({Release.V4_1, Release.V4_2}), "dies_with_connection") is True
    assert agreed(frozenset({Release.V4_0}), "dies_with_connection") is False
    assert agreed(ANY_RELEASE, "dies_with_connection") is None
    assert set(BEHAVIOUR) == set(Release)


@pytest.mark.parametrize(("version", "releases"), [(0, {"4.0"}), (1, {"4.1", *NEWEST}), (2, NEWEST), (9, NEWEST)])
def test_a_release_is_told_by_what_it_answers(version: int, releases: set[str]) -> None:
    assert {release.value for release in releases_answering(version)} == releases


def test_what_releases_do() -> None:
    """KAFKA-19015, KAFKA-19950, KAFKA-19159, KAFKA-19231, and what brokers of each release were seen to do
    (tests/broker)."""
    told = {
        release.value: (one.dies_with_connection, one.dies_with_older_connection, one.full_is_not_found)
        for release, one in BEHAVIOUR.items()
    }
    assert told == {
        "4.0": (False, False, True),
        "4.1": (True, True, False),
        **dict.fromkeys(NEWEST, (True, False, False)),
    }
    assert [one.idle_ns for one in BEHAVIOUR.values()] == [120 * 10**9, None, None, None]
    assert [release.value for release, one in BEHAVIOUR.items() if one.keeps_highest_start] == ["4.4 or later"]

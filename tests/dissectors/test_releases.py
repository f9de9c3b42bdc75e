"""Which release speaks what, and how a share group lives: facts that agree with each other and with their source."""

from __future__ import annotations

import re

import pytest

from kshark.schema import versions_of
from kshark_dissectors.index import INDEX
from kshark_dissectors.releases import RELEASES, SPOKEN
from kshark_dissectors.share_life import LIFE
from tests.shared import shared


@pytest.mark.parametrize("key", sorted(SPOKEN))
def test_what_releases_speak_is_what_the_index_has(key: int) -> None:
    told = [versions_of(versions.removesuffix("*")) for versions in SPOKEN[key] if versions]
    every = versions_of(INDEX[key][2])
    assert len(SPOKEN[key]) == len(RELEASES)
    assert (min(each.low for each in told), max(each.high for each in told)) == (every.low, every.high)


def test_the_releases_are_those_of_the_protocols_list() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \|(.*)\|$", shared("protocol", "api-keys.md").read_text(), re.M)
    assert sorted(int(key) for key, _, _ in rows) == list(SPOKEN)
    for key, name, rest in rows:
        columns = [column.strip() for column in rest.split("|")][5:12]
        assert INDEX[int(key)][0] == name
        assert [versions.replace("*", " U") or "-" for versions in SPOKEN[int(key)]] == [
            re.sub("^none$", "-", each) for each in columns
        ]


def test_every_step_of_a_share_groups_life_is_an_api_that_exists() -> None:
    made = {key for step in LIFE for key in step.apis}
    assert made <= INDEX.keys()
    assert made >= {76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92}

"""Findings from logs beside those from the packets, for every capture that has both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared import CAPTURES, SHARED, every
from tools.request_logs import compare, pairs

BUNDLED = [*pairs(CAPTURES)]
#: Where nobody breaks a rule and no broker ends, the findings are the same.
EQUAL = ("java-limit", "seed-messy", "share-java-explicit", "share-java-renew", "share-librdkafka", "streams-groups")


def name_of(pair: tuple[Path, Path] | None) -> str:
    return "none" if pair is None else pair[0].stem


def assert_less_is_proved(pair: tuple[Path, Path]) -> None:
    compared = compare(*pair)
    assert not compared.accused
    if pair[0].parent.name != "walks":  # there, clients break all rules at once, and one doubt changes what follows
        assert "" not in compared.reasons()
    if pair[0].stem in EQUAL:
        assert not compared.only_packets
        assert not compared.only_log


@pytest.mark.sweep(quick=3)
@pytest.mark.parametrize("pair", BUNDLED, ids=name_of)
def test_a_log_accuses_nobody_else_and_lacks_only_what_it_cannot_show(pair: tuple[Path, Path]) -> None:
    assert_less_is_proved(pair)


@pytest.mark.slow
@pytest.mark.parametrize("pair", every(pairs(SHARED / "captures")), ids=name_of)
def test_so_does_a_log_of_the_shared_captures(pair: tuple[Path, Path]) -> None:
    assert_less_is_proved(pair)

"""What a broker offers, and which versions that are."""

from __future__ import annotations

from types import SimpleNamespace as Body

import pytest

from kshark.exchange.offer import is_offered, offer_of


def ranges(*offered: tuple[int, int, int]) -> Body:
    names = ("api_key", "min_version", "max_version")
    return Body(api_keys=[dict(zip(names, one, strict=True)) for one in offered])


@pytest.mark.parametrize(("version", "taken"), [(-1, False), (0, False), (1, True), (2, True), (3, False)])
def test_what_lies_in_a_range(version: int, taken: bool) -> None:
    assert is_offered(offer_of(ranges((3, 0, 13), (78, 1, 2))), 78, version) is taken


def test_apis_that_are_not_named_are_not_offered() -> None:
    assert not is_offered(offer_of(ranges((3, 0, 13))), 999, 0)


@pytest.mark.parametrize(("fetch", "taken"), [(0, True), (4, False)])
def test_brokers_from_4_0_on_offer_old_versions_of_produce_and_do_not_take_them(fetch: int, taken: bool) -> None:
    offer = offer_of(ranges((0, 0, 13), (1, fetch, 18)))
    assert is_offered(offer, 0, 2) is taken
    assert is_offered(offer, 0, 3)


def test_answers_without_ranges() -> None:
    assert offer_of(None) == offer_of(Body(api_keys=None)) == offer_of(Body(api_keys=[])) == b""


def test_equal_answers_are_kept_once() -> None:
    assert offer_of(ranges((3, 0, 13))) is offer_of(ranges((3, 0, 13)))

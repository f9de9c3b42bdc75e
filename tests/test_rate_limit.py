"""Events that come with every packet: the first are reported one by one, the rest is counted, or thinned out."""

from __future__ import annotations

from unittest.mock import patch

from msgspec.structs import replace

from kshark import limits
from kshark.model import Weird
from kshark.rate_limit import RateLimit, WeirdLimit

# -- any event


def test_due_are_the_first_the_tenth_the_hundredth() -> None:
    limit = RateLimit()
    assert [count for count in range(1, 1001) if limit.is_due("a")] == [1, 10, 100, 1000]


def test_the_first_few_may_all_be_due() -> None:
    limit = RateLimit()
    assert [count for count in range(1, 1001) if limit.is_due("a", 3)] == [1, 2, 3, 10, 100, 1000]


def test_each_key_has_its_own_count() -> None:
    limit = RateLimit()
    assert [limit.is_due(key) for key in ("a", "b", "a", "b", "c")] == [True, True, False, False, True]


def test_the_key_that_was_not_used_for_longest_starts_anew() -> None:
    limit = RateLimit()
    with patch.object(limits, "RATIONED", 2):
        assert [limit.is_due(key) for key in ("a", "b", "a", "c", "a", "b")] == [True, True, False, True, False, True]


# -- weirds


def weird(packet: int, code: str = "PACKET_TOO_SHORT", first_packet: int | None = None) -> Weird:
    return Weird(code, "link", packet, packet * 1000, f"packet {packet}", first_packet=first_packet, size=10)


def test_each_code_is_passed_up_to_the_limit_and_then_summed_up() -> None:
    limit = WeirdLimit(limit=2)

    passed = [w.packet for n in range(1, 6) for w in limit.take(weird(n))]
    passed += [w.packet for w in limit.take(weird(9, "IP_FRAGMENT"))]

    assert passed == [1, 2, 9]
    [rest] = limit.close()
    assert (rest.code, rest.first_packet, rest.packet, rest.size, rest.time_ns) == ("PACKET_TOO_SHORT", 3, 5, 30, 5000)
    assert rest.times == 3
    assert rest.detail == "3 more, the last one: packet 5"


def test_one_weird_may_stand_for_many() -> None:
    limit = WeirdLimit(limit=1)

    assert len(list(limit.take(weird(1)))) == 1
    assert list(limit.take(replace(weird(90, first_packet=2), times=89))) == []
    [rest] = limit.close()
    assert (rest.first_packet, rest.packet, rest.times) == (2, 90, 89)
    assert rest.detail.startswith("89 more")


def test_with_few_there_is_nothing_to_sum_up() -> None:
    limit = WeirdLimit(limit=5)
    list(limit.take(weird(1)))

    assert list(limit.close()) == []


def test_the_rest_comes_in_the_order_of_packets() -> None:
    """However many packets were looked at together, and for which code first."""
    limit = WeirdLimit(limit=0)
    for one in (weird(7), replace(weird(5), code="HEADER_INVALID")):
        list(limit.take(one))

    assert [rest.packet for rest in limit.close()] == [5, 7]

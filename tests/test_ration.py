"""Weirds that come with every packet are told one by one for a while, then counted."""

from __future__ import annotations

from msgspec.structs import replace

from kshark.model import Weird
from kshark.ration import Ration


def weird(packet: int, code: str = "PACKET_TOO_SHORT", first_packet: int | None = None) -> Weird:
    return Weird(code, "link", packet, packet * 1000, f"packet {packet}", first_packet=first_packet, size=10)


def test_each_code_is_told_up_to_the_limit_and_then_summed_up() -> None:
    ration = Ration(limit=2)

    told = [w.packet for n in range(1, 6) for w in ration.take(weird(n))] + [
        w.packet for w in ration.take(weird(9, "IP_FRAGMENT"))
    ]

    assert told == [1, 2, 9]
    [rest] = ration.close()
    assert (rest.code, rest.first_packet, rest.packet, rest.size, rest.time_ns) == ("PACKET_TOO_SHORT", 3, 5, 30, 5000)
    assert rest.times == 3
    assert rest.detail == "3 more, the last one: packet 5"


def test_one_weird_may_stand_for_many() -> None:
    ration = Ration(limit=1)

    assert len(list(ration.take(weird(1)))) == 1
    assert list(ration.take(replace(weird(90, first_packet=2), times=89))) == []
    [rest] = ration.close()
    assert (rest.first_packet, rest.packet, rest.times) == (2, 90, 89)
    assert rest.detail.startswith("89 more")


def test_with_few_there_is_nothing_to_sum_up() -> None:
    ration = Ration(limit=5)
    list(ration.take(weird(1)))

    assert list(ration.close()) == []


def test_what_is_left_comes_in_the_order_of_packets() -> None:
    """However many packets were looked at together, and for which code first."""
    ration = Ration(limit=0)
    for one in (weird(7), replace(weird(5), code="HEADER_INVALID")):
        list(ration.take(one))

    assert [rest.packet for rest in ration.close()] == [5, 7]

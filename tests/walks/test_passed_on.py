"""The same requests on two connections: a capture that holds both sides of a NAT or a proxy accuses nobody of using one
session twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from kshark.model import Finding
from tests.analysis.rules.promises.connections import given_up
from tests.analysis.rules.test_connections import closed_while_held_up, reopened_and_went_on
from tests.analysis.talks import SHARE_SESSION_LIMIT_REACHED, handed, opened
from tests.conversation import (
    BROKER,
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    Conversation,
    Member,
    findings,
    note,
    violation,
)
from tests.packets import Packet, batch
from tests.property.mangled import packets_of
from tests.shared import CAPTURES
from tests.thinning import Whole, added, findings_in, findings_of, single_packets
from tests.walks.passing import Passing, ends_in

CORRECT: Final = (
    "share-java-explicit", "share-java-explicit-4.0.0", "share-java-renew", "share-java-implicit-4.2.1",
    "share-librdkafka",
    "share-restart", "share-loss", "seed-messy",
)  # fmt: skip
WRONG: Final = (
    "share-leaders",
    "adv-acks",
    "adv-epochs",
    "adv-sessions-4.2.1",
    "adv-races-4.1.2",
    "aimed",
    "java-limit",
)
WAYS: Final = {
    "a NAT": Passing(),
    "a proxy": Passing(renumbered=123_456_789),
    "a service's address": Passing(of_brokers=True),
    "a proxy at another address": Passing(renumbered=123_456_789, of_brokers=True),
}
#: Its sides were recorded by two clocks that differ by less than requests follow each other.
CLOCKS: Final = {"a clock ahead": Passing(clock_ns=3_000_000), "a clock behind": Passing(clock_ns=-3_000_000)}


def brokers_of(packets: list[Packet]) -> frozenset[str]:
    """Brokers of these captures listen at ports that begin with 2009."""
    return frozenset(end for end in ends_in(packets) if ":2009" in end)


def of_both_sides(packets: list[Packet], passing: Passing, brokers: frozenset[str] | None = None) -> list[Finding]:
    """Findings, under the addresses that clients have before they are passed on."""
    found = findings_in([batch(passing.twice(packets, brokers or brokers_of(packets)))])
    return [*passing.undone(found, ends_in(packets))]


#: Notes: two openings that are one do not show it, for two clients may open sessions alike.
OPENED_TWICE = ("SESSION_REOPEN", "SESSION_FLAPPING")


@pytest.mark.sweep(quick=3)
@pytest.mark.parametrize("passing", [*WAYS.values(), *CLOCKS.values()], ids=[*WAYS, *CLOCKS])
@pytest.mark.parametrize("name", CORRECT)
def test_who_is_right_is_right_on_both_sides(name: str, passing: Passing) -> None:
    packets = packets_of(CAPTURES / f"{name}.pcap")
    found = of_both_sides(packets, passing)
    assert [one.code for one in found if one.verdict == "violation"] == []
    if not passing.clock_ns:
        assert {one.code for one in found} <= {
            *OPENED_TWICE,
            "SEEN_TWICE",
            *(one.code for one in findings_in([batch(packets)])),
        }


@pytest.mark.sweep(quick=3)
@pytest.mark.parametrize("passing", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", WRONG)
def test_who_is_wrong_is_accused_of_nothing_else(name: str, passing: Passing) -> None:
    packets = packets_of(CAPTURES / f"{name}.pcap")
    assert added(findings_in([batch(packets)]), of_both_sides(packets, passing)) == []


@pytest.mark.sweep
@pytest.mark.parametrize("every", [20, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("passing", WAYS.values(), ids=WAYS)
def test_a_packet_of_either_side_may_be_missing(passing: Passing, every: int) -> None:
    packets = packets_of(CAPTURES / "seed-messy.pcap")
    whole = Whole.of([batch(passing.twice(packets, brokers_of(packets)))])
    for words, keep in single_packets(whole, every):
        assert [one.code for one in findings_of(whole, keep) if one.verdict == "violation"] == [], words


def alone() -> Conversation:
    """A member that is handed records by every fetch, one behind the other, and acknowledges them."""
    talk = Conversation()
    a = opened(talk)
    for epoch in range(1, 20, 2):
        a.share_fetch(epoch).answered(responses=handed((0, epoch, epoch)), acquisition_lock_timeout_ms=30_000)
        a.share_acknowledge(epoch + 1, [(epoch, epoch, 1)]).answered()
    return talk


def waits_at_once() -> Conversation:
    """A session is opened, and its first fetch waits."""
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    waiting = a.share_fetch(1)
    talk.pause(1)
    waiting.answered()
    a.share_fetch(2).answered()
    return talk


def refused_late() -> Conversation:
    """A fetch is held up, refused when it comes, and its client opens the session anew at once."""
    talk = Conversation()
    a = opened(talk)
    held_up = a.share_fetch(1)
    talk.pause(1)
    held_up.answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(0, [0]).answered()
    return talk


@pytest.mark.parametrize("passing", CLOCKS.values(), ids=CLOCKS)
@pytest.mark.parametrize("talk", [waits_at_once, refused_late])
def test_a_clock_that_is_behind_by_more_than_an_answer_takes(
    talk: Callable[[], Conversation], passing: Passing
) -> None:
    packets = [packet for _, packet in talk().packets()]
    found = of_both_sides(packets, passing, frozenset([BROKER]))
    assert [(one.code, one.blame) for one in found if one.verdict == "violation"] == []


def refused_at_once() -> Conversation:
    """A client that goes on as it should; the broker has lost count, and the client begins anew."""
    talk = Conversation()
    a = opened(talk, 2)
    for _ in range(5):
        a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
        for epoch in range(3):
            a.share_fetch(epoch, [0] if epoch == 0 else ()).answered()
    return talk


@pytest.mark.parametrize("passing", [*WAYS.values(), *CLOCKS.values()], ids=[*WAYS, *CLOCKS])
@pytest.mark.parametrize(
    "talk",
    [
        alone,
        refused_at_once,
        reopened_and_went_on,
        closed_while_held_up,
        lambda: given_up(at_first=True)[0],
        lambda: given_up(at_first=False)[0],
    ],
)
def test_who_is_right_and_is_held_up_is_right_on_both_sides(talk: Callable[[], Conversation], passing: Passing) -> None:
    packets = [packet for _, packet in talk().packets()]
    passing = replace(passing, clock_ns=passing.clock_ns // 10)  # packets follow each other faster here
    found = of_both_sides(packets, passing, frozenset([BROKER]))
    assert [(one.code, one.blame) for one in found if one.verdict == "violation" and one.blame == "client"] == []


@pytest.mark.parametrize("passing", [None, *WAYS.values(), *CLOCKS.values()], ids=["one side", *WAYS, *CLOCKS])
def test_clients_whose_requests_brokers_took_seconds_to_take(passing: Passing | None) -> None:
    """Java consumers 4.2.1 and two brokers 4.3.1 behind proxies that hold bytes up: fetches are given up, and refused
    when they come."""
    packets = packets_of(Path(__file__).with_name("held-up.pcap"))
    brokers = frozenset(["127.0.0.1:39081", "127.0.0.1:45513"])
    found = findings_in([batch(packets)]) if passing is None else of_both_sides(packets, passing, brokers)
    assert [one.code for one in found if one.verdict == "violation"] == []
    assert ("FETCH_OVERTAKEN", "given_up") in {(one.code, one.cause) for one in found}


def passed_on(talk: Conversation, a: Member, epochs: range, *, records: bool = True) -> Member:
    """The member's fetches as a proxy sends them on, which numbers requests anew; what it sends with."""
    b = a.on(talk.connection(host="10.0.0.2"))
    b.connection.correlation_id += 100
    for epoch in epochs:
        outer, inner = a.share_fetch(epoch), b.share_fetch(epoch)
        responses = handed((0, 10 * epoch, 10 * epoch + 9)) if records else []
        for one in (inner, outer):
            one.answered(responses=responses, acquisition_lock_timeout_ms=30_000)
    return b


def test_a_proxy_that_numbers_requests_anew_passes_records_on_once() -> None:
    talk = Conversation()
    a = talk.member("a")
    passed_on(talk, a, range(3))
    (opening,) = [it for it in talk.exchanges if it.connection is a.connection and it.api == "ShareFetch"][:1]
    assert findings(talk) == [note("SEEN_TWICE", opening)] == findings(talk, exact=True)


def test_a_proxy_that_numbers_requests_anew_and_has_no_records() -> None:
    talk = Conversation()
    passed_on(talk, talk.member("a"), range(3), records=False)
    assert [it.code for it in findings(talk) if it.verdict == "violation"] == []


def fetched_at_once(talk: Conversation, other: int) -> list[str]:
    """What is said of three fetches of a member from two brokers at once, which hand out partition 0, and this one."""
    a = talk.member("a")
    b = a.on(talk.connection("10.0.0.8:9092"))
    for epoch in range(3):
        outer, inner = a.share_fetch(epoch), b.share_fetch(epoch)
        for one, partition in ((inner, other), (outer, 0)):
            one.answered(responses=handed((partition, 10 * epoch, 10 * epoch + 9)), acquisition_lock_timeout_ms=30_000)
    assert findings(talk) == findings(talk, exact=True)
    return [it.code for it in findings(talk)]


def test_a_broker_with_two_addresses_hands_records_out_once() -> None:
    """Seen in captures of all interfaces of a host, where the address of a service stands for the broker's."""
    assert fetched_at_once(Conversation(), 0) == ["SEEN_TWICE"]


def test_two_brokers_hand_out_records_of_their_own() -> None:
    assert fetched_at_once(Conversation(), 1) == []


def test_a_refusal_is_passed_on_too() -> None:
    talk = Conversation()
    a = talk.member("a")
    b = passed_on(talk, a, range(2), records=False)
    outer, inner = a.share_fetch(7), b.share_fetch(7)
    inner.answered(INVALID_SHARE_SESSION_EPOCH)
    outer.answered(INVALID_SHARE_SESSION_EPOCH)
    a.heartbeat(1).given(1)
    assert "CONCURRENT_SESSION_REQUESTS" not in {it.code for it in findings(talk)}


@pytest.mark.parametrize(("numbered_apart", "told"), [(0, []), (3, [25, 27])])
def test_one_side_may_be_recorded_by_a_clock_that_is_behind(numbered_apart: int, told: list[int]) -> None:
    """Its copy of a request that was answered comes while the next one is open; a request with a number of its own is
    none."""
    talk = Conversation()
    a = opened(talk, 1)
    outer, inner = a.on(talk.connection()), a.on(talk.connection(host="10.0.0.2"))
    inner.connection.correlation_id += numbered_apart
    waiting = []
    for side in (outer, inner):
        side.share_fetch(5).answered(SHARE_SESSION_NOT_FOUND)
        waiting.append(side.share_fetch(0, [0]))
    for one in waiting:
        one.answered(SHARE_SESSION_LIMIT_REACHED)
    for side in (outer, inner):
        side.share_fetch(0, [0]).answered()
    assert [it.packet for it in findings(talk) if it.code == "CONCURRENT_SESSION_REQUESTS"] == told


def test_what_is_passed_on_is_judged_once() -> None:
    talk = Conversation()
    a = talk.member("a")
    b = passed_on(talk, a, range(3))
    outer, inner = a.share_fetch(7), b.share_fetch(7)
    inner.answered(INVALID_SHARE_SESSION_EPOCH)
    outer.answered(INVALID_SHARE_SESSION_EPOCH)
    wrong = [it for it in findings(talk) if it.verdict == "violation"]
    assert wrong == [violation("EPOCH_SKIP_AHEAD", inner, blame="client", cause="skip_ahead")]


def test_a_side_that_is_seen_no_more_leaves_the_other_one_to_be_judged() -> None:
    talk = Conversation()
    a = talk.member("a")
    passed_on(talk, a, range(3))
    for epoch in range(3, 30):
        a.share_fetch(epoch).answered()
    wrong = a.share_fetch(40).answered(INVALID_SHARE_SESSION_EPOCH)
    assert findings(talk)[-1] == violation("EPOCH_SKIP_AHEAD", wrong, blame="client", cause="skip_ahead")


def test_a_side_that_is_closed_leaves_the_other_one_to_be_judged() -> None:
    talk = Conversation(release="4.0")
    a = talk.member("a")
    passed_on(talk, a, range(3)).connection.close()
    a.share_fetch(3).answered()
    wrong = a.share_fetch(9).answered(INVALID_SHARE_SESSION_EPOCH)
    assert findings(talk)[-1] == violation("EPOCH_SKIP_AHEAD", wrong, blame="client", cause="skip_ahead")


def test_openings_one_behind_the_other_are_two() -> None:
    """A fetch without an answer holds them all back."""
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(1)
    for _ in range(2):
        again = a.on(talk.connection()).share_fetch(0).answered()
    assert note("SESSION_REOPEN", again) in findings(talk)


def test_two_that_do_the_same_and_get_different_answers_are_two() -> None:
    talk = Conversation()
    a = opened(talk)
    b = a.on(talk.connection())
    b.connection.correlation_id = a.connection.correlation_id
    first, second = a.share_fetch(1), b.share_fetch(1)
    first.answered()
    second.answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(2).answered()
    b.heartbeat(1)
    assert violation("CONCURRENT_SESSION_REQUESTS", second.sent, blame="client") in findings(talk)


def test_a_refusal_of_the_same_request_by_another_clock_is_no_second_one() -> None:
    """Records acknowledged once, and the same request a little later on the other side."""
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(1).answered(responses=handed((0, 0, 9)), acquisition_lock_timeout_ms=30_000)
    a.share_acknowledge(2, [(0, 9, 1)]).answered()
    b = a.on(talk.connection(host="10.0.0.2"))
    b.connection.correlation_id = a.connection.correlation_id - 1
    b.share_acknowledge(2, [(0, 9, 1)]).answered()
    assert [it.code for it in findings(talk) if it.verdict == "violation"] == []


def test_other_addresses_are_put_back() -> None:
    talk = Conversation()
    opened(talk).share_fetch(5).answered(INVALID_SHARE_SESSION_EPOCH)
    passing = Passing()
    packets = passing.twice(talk.wire.packets, frozenset({BROKER}))
    assert len(packets) == 2 * len(talk.wire.packets)
    clients = {one.client for one in passing.undone(findings_in([batch(packets)]), ends_in(talk.wire.packets))}
    assert clients == {"10.0.0.1:50001"}

"""Known changes between two conversations, and what the comparison says about them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kshark.api_keys import SHARE_ACKNOWLEDGE
from kshark.diff.comparison import Comparison
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation
from tests.diff.talks import compared, consumers, every, healthy, profile_of, rows
from tests.packets import Wire

SKIPS = "finding EPOCH_SKIP_AHEAD (skip_ahead) by librdkafka"
REFUSED = "error ShareFetch INVALID_SHARE_SESSION_EPOCH"


def worse(comparison: Comparison) -> list[str]:
    return [row.name for row in comparison.worse]


def test_the_same_twice_is_the_same() -> None:
    found = rows(consumers(skips=every(60, 3)), consumers(skips=every(60, 3)))
    assert {row.verdict for row in found.values()} <= {"same", "not comparable"}
    assert not any(row.is_worse or row.may_be_chance for row in found.values())


def test_a_new_mistake_of_a_new_version() -> None:
    found = rows(healthy(), consumers(skips=every(60, 3), version="2.11.0"))
    row = found[SKIPS]
    assert (row.verdict, row.is_worse, row.change) == ("new", True, None)
    assert row.sentence == (
        "EPOCH_SKIP_AHEAD (skip_ahead) by librdkafka 2.11.0 is new: 20 of 220 ShareFetch and ShareAcknowledge requests "
        "(90.9 per 1,000); none of 180 before."
    )
    assert row.after == {"count": 20, "of": 220, "per_1000": 90.909}
    assert found[REFUSED].is_worse
    assert found["sessions share sessions opened again"].is_worse
    assert found["client librdkafka"].sentence == "Client librdkafka: 2.10.0 → 2.11.0."
    assert not found["client librdkafka"].is_worse


def test_swapped_arguments_turn_worse_into_better() -> None:
    mistaken = consumers(skips=every(60, 3), slow=range(60), version="2.11.0", throttled=every(60, 4))
    there, back = rows(healthy(), mistaken), rows(mistaken, healthy())
    opposite = {"new": "gone", "worse": "better", "same": "same", "not comparable": "not comparable"}
    assert any(row.is_worse for row in there.values())
    for name, row in there.items():
        if row.verdict in opposite:
            assert back[name].verdict == opposite[row.verdict], name
        assert back[name].is_better == row.is_worse, name
        assert not back[name].is_worse, name


def test_more_often_is_a_factor() -> None:
    row = rows(consumers(200, skips=every(200, 20)), consumers(200, skips=every(200, 3)))[SKIPS]
    assert (row.verdict, row.is_worse) == ("worse", True)
    assert row.change == pytest.approx(5.5, rel=0.1)
    assert "rose 5." in row.sentence


def test_captures_of_different_length_are_compared_by_rate() -> None:
    """Five times as many mistakes in five times as many requests are no difference."""
    row = rows(consumers(40, skips=every(40, 4)), consumers(200, skips=every(200, 4)))[SKIPS]
    assert (row.verdict, row.chance) == ("same", None)


def test_one_mistake_may_be_chance() -> None:
    row = rows(healthy(), consumers(skips=[30], version="2.11.0"))[SKIPS]
    assert (row.verdict, row.is_worse, row.may_be_chance) == ("same", False, True)
    assert row.sentence.endswith("May be chance.")


def test_a_burst_may_be_chance() -> None:
    """Ten mistakes one after the other have one reason."""
    row = rows(consumers(300), consumers(300, skips=range(100, 110)))[SKIPS]
    assert (row.is_worse, row.may_be_chance) == (False, True)


def test_a_rule_that_was_not_tested_is_not_comparable() -> None:
    """NO_RECOVERY is tested by refusals only: before there was none."""

    def stubborn(rounds: int, *, refused: bool) -> Conversation:
        talk = Conversation()
        for number in range(rounds):
            member = talk.member(f"m{number}")
            member.share_fetch(0).answered()
            if refused:
                for _ in range(3):
                    member.share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
            member.share_acknowledge(-1).answered()
            member.connection.close()
        return talk

    found = rows(stubborn(60, refused=False), stubborn(60, refused=True))
    (row,) = [row for row in found.values() if row.code == "NO_RECOVERY" and row.kind == "finding"]
    assert (row.verdict, row.is_worse) == ("not comparable", False)
    assert "before nothing put the rule to the test" in row.sentence


def test_another_software_is_compared_with_all_clients() -> None:
    def of(name: str, **more: object) -> Conversation:
        talk = Conversation()
        connection = talk.connection(introduced=False)
        connection.api_versions("4.2", name, "1.0")
        for number in range(60):
            member = talk.member(f"m{number}", connection=connection)
            member.share_fetch(0).answered()
            member.share_fetch(1).answered()
            if more and number % 3 == 0:
                member.share_fetch(9).answered(INVALID_SHARE_SESSION_EPOCH)
                member.share_fetch(0).answered()
            member.share_acknowledge(-1).answered()
        return talk

    found = rows(of("kgo"), of("librdkafka", faulty=True))
    row = found["finding EPOCH_SKIP_AHEAD (skip_ahead) by clients"]
    assert row.is_worse
    assert "by clients (librdkafka 1.0) is new" in row.sentence
    assert found["client kgo"].verdict == "gone"
    assert found["client librdkafka"].verdict == "new"


def test_slower_answers() -> None:
    found = rows(healthy(), consumers(slow=range(60), slow_s=0.048))
    row = found["latency ShareAcknowledge p99"]
    assert (row.verdict, row.is_worse, row.change) == ("worse", True, 49)
    assert row.sentence == "ShareAcknowledge p99 rose from 1.00 ms to 49.0 ms (49.0 times; 120 and 120 answers)."
    assert found["latency ShareAcknowledge p50"].verdict == "same"


def test_slower_below_the_threshold_is_the_same() -> None:
    slow = range(60)
    before, after = consumers(slow=slow, slow_s=0.03), consumers(slow=slow, slow_s=0.05)
    assert not rows(before, after)["latency ShareAcknowledge p99"].is_worse
    assert rows(before, after, threshold=1.5)["latency ShareAcknowledge p99"].is_worse


def test_one_slow_moment_may_be_chance() -> None:
    row = rows(consumers(100), consumers(100, slow=range(40, 44)))["latency ShareAcknowledge p99"]
    assert not row.is_worse
    assert row.may_be_chance


def test_less_than_a_millisecond_hurts_nobody() -> None:
    def at(step_ns: int) -> Conversation:
        talk = Conversation()
        talk.wire.step_ns = step_ns
        member = talk.member("a")
        member.share_fetch(0).answered()
        for epoch in range(1, 200):
            member.share_acknowledge(epoch).answered()
        return talk

    row = rows(at(50_000), at(500_000))["latency ShareAcknowledge p50"]
    assert (row.verdict, row.change) == ("same", pytest.approx(10))


def test_throttling() -> None:
    row = rows(healthy(), consumers(throttled=every(60, 4)))["throttling ShareAcknowledge throttled"]
    assert row.sentence.startswith("Throttling of ShareAcknowledge is new: 15 of 120 ShareAcknowledge answers")
    assert row.is_worse


def acknowledging(*, answers: bool, ends: int | None) -> Conversation:
    """Sixty members on connections of their own, whose last request is answered or not. `ends`: the side that resets
    the connection."""
    talk = Conversation()
    for number in range(60):
        member = talk.member(f"m{number}")
        member.share_fetch(0).answered()
        member.share_acknowledge(1).answered()
        last = member.share_acknowledge(2)
        if answers:
            last.answered()
        if ends is not None:
            member.connection.tcp.reset(ends)
    return talk


@pytest.mark.parametrize(("ends", "is_worse"), [(1, True), (0, False), (None, False)])
def test_brokers_that_close_instead_of_answering(ends: int | None, is_worse: bool) -> None:
    """Not clients that end with a request open, nor a capture that does."""
    row = rows(acknowledging(answers=True, ends=ends), acknowledging(answers=False, ends=ends)).get(
        "unanswered ShareAcknowledge unanswered"
    )
    assert (row is not None) == is_worse
    if row is not None:
        assert row.is_worse
        assert row.sentence == (
            "Closing by brokers instead of an answer to ShareAcknowledge is new: 60 of 120 ShareAcknowledge requests "
            "(500 per 1,000); none of 120 before."
        )


def test_releases_and_versions() -> None:
    found = rows(healthy(), consumers(release="4.4", version="2.11.0", fetch_version=2))
    assert found["release brokers"].sentence == "Brokers: Kafka 4.2 or 4.3 → Kafka 4.4."
    row = found["version ShareFetch of librdkafka"]
    assert (row.before, row.after, row.verdict) == (["v1"], ["v2"], "changed")
    assert worse(compared(profile_of(healthy()), profile_of(consumers(release="4.4", version="2.11.0")))) == []


def test_an_api_of_one_capture_only() -> None:
    def asking(apis: Callable[[Conversation], None]) -> Conversation:
        talk = consumers(20)
        apis(talk)
        return talk

    def metadata(talk: Conversation) -> None:
        talk.connection().ask(3, "Metadata", 12, {"topics": None}).answered(None)

    found = rows(asking(lambda _: None), asking(metadata))
    assert found["api Metadata"].verdict == "new"
    assert "cannot be compared" in found["api Metadata"].sentence


def test_captures_without_an_api_in_common() -> None:
    only = Conversation()
    only.connection(introduced=False).ask(3, "Metadata", 12, {"topics": None}).answered(None)
    comparison = compared(profile_of(healthy()), profile_of(only))
    assert comparison.rows == []
    assert (
        "no API in common (before ApiVersions, ShareGroupHeartbeat, ShareFetch; after Metadata)" in comparison.why_not
    )


def test_captures_without_messages() -> None:
    assert compared(profile_of(Conversation()), profile_of(healthy())).why_not.startswith("before: ")


def test_captures_without_times_have_no_latencies() -> None:
    still = consumers(skips=every(60, 3))
    still.wire = Wire([packet.at(1_000_000_000) for packet in still.wire.packets])
    profile = profile_of(still)
    assert not profile.has_clock
    comparison = compared(profile_of(healthy()), profile)
    assert {row.verdict for row in comparison.rows if row.kind == "load"} == {"not comparable"}
    assert not [row for row in comparison.rows if row.kind in ("latency", "wait")]
    assert not any(row.is_worse and row.kind == "latency" for row in comparison.rows)


def test_many_kinds_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from kshark import limits

    monkeypatch.setattr(limits, "STATISTICS_ROWS", 5)
    profile = profile_of(consumers(10, skips=[3]))
    assert "more kinds" in profile.remarks[-1]
    assert profile.counts.total(("answers", SHARE_ACKNOWLEDGE)) + profile.counts.left_out > 0

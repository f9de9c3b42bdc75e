"""Long rebalances and rebalance storms, as conversations: rules 148 and 149."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshark.model import Finding
from tests.conversation import Asked, Conversation, Member, Thinned, note
from tests.groups.talks import Classic
from tests.groups.test_expiry import handed, joins
from tests.groups.test_heartbeats import consumer
from tests.groups.test_rebalances import again, answer, begun, goes_by, members, sync
from tests.incidents.talks import incidents


def found(talk: Conversation | Thinned) -> list[Finding]:
    return [it for it in incidents(talk) if it.code in ("REBALANCE", "REBALANCE_STORM")]


def dead(talk: Conversation, seconds: float = 20) -> None:
    """A new member joins while another one is dead, and the coordinator waits for that."""
    a, _ = begun(talk, "a", "b")
    (new,) = members(talk, "c")
    joined = new.join(as_="")
    a.beats(1, 27)
    back = a.join()
    talk.pause(seconds)
    answer(2, (a, back), (new, joined))
    sync(2, a, new)


def crash(talk: Conversation, group: list[Classic], generation: int, times: int, pause: float = 10) -> int:
    """A member joins and leaves again and again. Return the last generation."""
    (a,) = group
    for number in range(times):
        talk.pause(pause)
        pod = Classic(talk.connection(host="10.0.0.9"), f"pod-{number}")
        pod.connection.client_id = f"pod-{number}"
        joined = pod.join(as_="")
        a.beats(generation, 27)
        answer(generation + 1, (a, a.join()), (pod, joined))
        sync(generation + 1, a, pod)
        talk.pause(1)
        pod.leaves()
        again(generation + 2, a)
        generation += 2
    return generation


def storm(talk: Conversation, times: int = 5) -> None:
    crash(talk, begun(talk, "a"), 1, times)


def test_a_dead_member_lets_a_group_stand_still() -> None:
    talk = Conversation()
    dead(talk)
    (it,) = found(talk)
    assert (it.code, it.verdict, it.cause, it.group_id) == ("REBALANCE", "note", "join", "c")
    assert "it waited for c1, which never joined, for 20.0 s" in it.argument


def test_a_short_rebalance_is_none() -> None:
    talk = Conversation()
    dead(talk, 12)
    assert found(talk) == []


def test_a_rebalance_lasts_when_the_capture_ends() -> None:
    talk = Conversation()
    dead_until_the_end(talk)
    talk.pause(16)
    talk.connection()
    (it,) = found(talk)
    assert (it.code, it.cause, it.until_packet) == ("REBALANCE", "leave", None)
    assert "it waited for c1, which has not joined so far" in it.argument


@pytest.mark.parametrize(("session", "rebalance", "took"), [(30, 60, 29), (60, 20, 20)])
def test_a_rebalance_ends_when_the_last_dead_member_is_out(session: int, rebalance: int, took: int) -> None:
    """Its session is over, or the group has waited for its rebalance timeout."""
    talk = Conversation()
    a, b = (replace(one, session_ms=session * 1000, rebalance_ms=rebalance * 1000) for one in members(talk, "a", "b"))
    answer(1, *((one, one.join(as_="")) for one in (a, b)))
    sync(1, a, b)
    b.connection.reset()
    talk.pause(1)
    a.leaves()
    goes_by(talk, 100)
    (it,) = found(talk)
    assert (it.code, it.cause, it.until_packet) == ("REBALANCE", "leave", None)
    assert isinstance(it.until_ns, int)
    assert round((it.until_ns - it.time_ns) / 1e9) == took
    assert f"rebalanced for about {took}." in it.argument
    assert f"it waited for c1, until it was removed, for about {took}." in it.argument


def dead_until_the_end(talk: Conversation) -> None:
    """A member leaves, and another one does not join again: nobody knows how that ends."""
    a, _, c = begun(talk, "a", "b", "d")
    c.leaves()
    a.beats(1, 27)


def test_a_member_that_crashes_in_a_loop_is_a_storm() -> None:
    talk = Conversation()
    storm(talk)
    (it,) = found(talk)
    assert (it.code, it.verdict, it.cause) == ("REBALANCE_STORM", "note", "leave")
    assert "rebalanced 11 times" in it.argument
    assert "pod-* (10.0.0.9) left ×5 and joined ×5; c1 (10.0.0.2) joined ×1" in it.argument


def test_a_member_that_leaves_and_comes_back_with_the_same_process() -> None:
    talk = Conversation()
    (a,) = begun(talk, "a")
    slow = talk.connection(host="10.0.0.9")
    for number in range(4):
        pod = Classic(slow, f"pod-{number}")
        joined, generation = pod.join(as_=""), 2 * number + 1
        a.beats(generation, 27)
        answer(generation + 1, (a, a.join()), (pod, joined))
        sync(generation + 1, a, pod)
        talk.pause(10)
        pod.leaves()
        again(generation + 2, a)
        talk.pause(5)
    (it,) = found(talk)
    assert "; 3 of those that left joined again with the same process, as after max.poll.interval.ms" in it.argument


def test_the_same_over_hours_is_none() -> None:
    talk = Conversation()
    crash(talk, begun(talk, "a"), 1, 5, pause=200)
    assert found(talk) == []


def test_a_storm_is_over_and_another_one_begins() -> None:
    talk = Conversation()
    group = begun(talk, "a")
    generation = crash(talk, group, 1, 5)
    talk.pause(900)
    crash(talk, group, generation, 5)
    assert [it.code for it in found(talk)] == ["REBALANCE_STORM"] * 2


def test_a_group_that_grows_and_shrinks_is_no_storm() -> None:
    talk = Conversation()
    group = begun(talk, "a")
    for generation, name in enumerate("bcde", 2):
        new = Classic(talk.connection(host=f"10.0.0.{generation + 5}"), name)
        joined = new.join(as_="")
        for one in group:
            one.beats(generation - 1, 27)
        group.append(new)
        answer(generation, *((one, joined if one is new else one.join()) for one in group))
        sync(generation, *group)
    for generation in range(6, 10):
        group.pop().leaves()
        again(generation, *group)
    assert found(talk) == []


def test_a_consumer_waits_for_partitions_that_another_one_does_not_give_up() -> None:
    talk = Conversation()
    a, b = talk.member("a", joined=False), talk.member("b", connection=talk.connection(host="10.0.0.2"), joined=False)
    joins(a, 1, 0, 1)
    consumer(a, 1, topic_partitions=handed(0, 1)["topic_partitions"]).given(1)
    joins(b, 2)
    consumer(a, 1).given(1, assignment=handed(0))
    beats(talk, a, 1, 20)
    consumer(a, 1, topic_partitions=handed(0)["topic_partitions"]).given(2)
    consumer(b, 2).given(2, assignment=handed(1))
    (it,) = found(talk)
    assert (it.code, it.cause) == ("REBALANCE", "join")
    assert "it waited for c1 to give up partitions (1), for 20.0 s" in it.argument


def beats(talk: Conversation, a: Member, epoch: int, seconds: int) -> None:
    for _ in range(seconds // 2):
        talk.pause(2)
        consumer(a, epoch).given(epoch)


@pytest.mark.parametrize("length", range(66, 140, 6))
def test_a_cut_capture_is_read(length: int) -> None:
    talk = Conversation()
    storm(talk, 2)
    a = talk.member("a", joined=False)
    joins(a, 1, 0, 1)
    beats(talk, a, 1, 4)
    talk.wire.packets[:] = [replace(packet, data=packet.data[:length]) for packet in talk.wire.packets]
    assert found(talk) == []


# -- members of another protocol


def conflicts(talk: Conversation) -> list[Finding]:
    return [it for it in incidents(talk) if it.code == "GROUP_PROTOCOL_CONFLICT"]


def refused_protocol(talk: Conversation) -> Asked:
    (other,) = members(talk, "z")
    return other.join(as_="", protocol="sticky").answered(23, member_id="", generation_id=-1)


def test_a_member_without_a_common_assignor_is_refused() -> None:
    talk = Conversation()
    begun(talk, "a")
    refused = refused_protocol(talk)
    (it,) = conflicts(talk)
    assert it == note("GROUP_PROTOCOL_CONFLICT", refused, "no_common_assignor")
    assert "it supports sticky, and client c1 (10.0.0.2) range" in it.argument


def test_a_consumer_that_joins_a_share_group_is_refused() -> None:
    talk = Conversation()
    talk.member("a", group="c")
    refused_protocol(talk)
    (it,) = conflicts(talk)
    assert (it.cause, it.verdict) == ("other_type", "note")


def test_nothing_is_said_of_a_group_that_is_not_in_the_capture() -> None:
    talk = Conversation()
    refused_protocol(talk)
    assert [it.cause for it in conflicts(talk)] == ["unknown"]

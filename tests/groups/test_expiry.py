"""Members that fall silent: their sessions expire, and no message contains it."""

from __future__ import annotations

from typing import Any

import pytest

from kshark import limits
from kshark.groups import ListedMember
from tests.analysis.talks import UNKNOWN_MEMBER_ID, unchanged
from tests.conversation import TOPIC, Asked, Connection, Conversation, Member, Thinned
from tests.groups.talks import Classic, group, groups, how, states
from tests.groups.test_heartbeats import consumer, given, streams, task
from tests.metrics.talks import told as metrics_of

GROUP, BROKER_CONFIG = 32, 4


def handed(*partitions: int) -> dict[str, Any]:
    return {"topic_partitions": [{"topic_id": TOPIC, "partitions": list(partitions)}]}


def joins(a: Member, epoch: int, *partitions: int, **fields: Any) -> Asked:
    return consumer(a, 0, subscribed_topic_names=["t"], topic_partitions=[], **fields).given(
        epoch, assignment=handed(*partitions)
    )


def two(talk: Conversation, host: str = "10.0.0.2") -> tuple[Member, Member]:
    """Two members of a consumer group: a has partition 0, b on another host has partition 1."""
    a, b = talk.member("a", joined=False), talk.member("b", connection=talk.connection(host=host), joined=False)
    joins(a, 1, 0, 1)
    joins(b, 2)
    consumer(a, 1).given(1, assignment=handed(0))
    consumer(a, 1, topic_partitions=[]).given(2)
    consumer(b, 2).given(2, assignment=handed(1))
    return a, b


def goes_on(talk: Conversation, a: Member, epoch: int, seconds: float, **answer: Any) -> None:
    """A member is heard every two seconds; the last answer has `answer`."""
    for _ in range(int(seconds // 2) - 1):
        talk.pause(2)
        consumer(a, epoch).given(epoch)
    talk.pause(2)
    consumer(a, epoch).given(answer.pop("given", epoch), **answer)


def describe_configs(connection: Connection, name: str, value: str, *, of: int = GROUP, resource: str = "g") -> Asked:
    asked = connection.ask(32, "DescribeConfigs", 1, {"resources": [{"resource_type": of, "resource_name": resource}]})
    config = {"name": name, "value": value, "read_only": False, "config_source": 1, "is_sensitive": False}
    result = {"error_code": 0, "error_message": None, "resource_type": of, "resource_name": resource}
    return asked.answered(None, results=[{**result, "configs": [{**config, "synonyms": []}]}])


def alter_configs(connection: Connection, name: str, value: str, error: int = 0) -> Asked:
    resource = {"resource_type": GROUP, "resource_name": "g"}
    config = {"name": name, "config_operation": 0, "value": value}
    asked = connection.ask(
        44, "IncrementalAlterConfigs", 1, {"resources": [{**resource, "configs": [config]}], "validate_only": False}
    )
    return asked.answered(None, responses=[{**resource, "error_code": error, "error_message": None}])


def ends(talk: Conversation | Thinned) -> dict[str, tuple[bool | None, str | None]]:
    """Whether each member is in the group, and how it ended."""
    return {one.member_id[0]: (one.present, how(one)) for each in groups(talk) for one in each.members}


def proof(talk: Conversation | Thinned, name: str = "a") -> Any:
    (one,) = [one for each in groups(talk) for one in each.members if one.member_id.startswith(name)]
    return None if one.ended is None else one.ended.because


def silent(talk: Conversation) -> ListedMember:
    (one,) = [one for one in group(talk).members if one.present is None]
    return one


# -- what others get


def test_partitions_of_a_killed_member_are_assigned_to_another() -> None:
    talk = Conversation()
    a, b = two(talk)
    a.connection.reset()
    goes_on(talk, b, 2, 8, given=3, assignment=handed(0, 1))
    assert ends(talk) == {"a": (False, "expired"), "b": (True, None)}
    assert (proof(talk), states(group(talk))[-1]) == ("assigned_to_others", ("Stable", 1))


def shared(talk: Conversation) -> tuple[Member, Member]:
    """Two members of a share group. The second one is killed before the first one knows its epoch."""
    a, b = talk.member("a", joined=False), talk.member("b", connection=talk.connection(host="10.0.0.2"), joined=False)
    a.heartbeat(0, ["t"]).given(1, assignment=handed(0, 1, 2))
    talk.pause(2)
    b.heartbeat(0, ["t"]).given(2, assignment=handed(0))
    b.heartbeat(2).given(2)
    talk.pause(3)
    b.connection.reset()
    a.heartbeat(1).given(2, assignment=handed(1, 2))
    return a, b


def inherits(talk: Conversation) -> Member:
    """The other member of `shared` gets the partitions of the killed one; returns it."""
    a, _ = shared(talk)
    for _ in range(10):
        talk.pause(5)
        a.heartbeat(2).given(2)
    a.heartbeat(2).given(3, assignment=handed(0, 1, 2))
    return a


def test_partitions_of_a_killed_member_of_a_share_group_are_assigned_to_another() -> None:
    talk = Conversation()
    a = inherits(talk)
    a.heartbeat(3).given(3)
    assert (ends(talk), proof(talk, "b")) == ({"a": (True, None), "b": (False, "expired")}, "assigned_to_others")
    for number, _ in talk.packets():
        assert how_of(talk.without_packets([number]), "a") is None, number
    a.heartbeat(-1).given(-1)
    assert states(group(talk))[-1] == ("Empty", 0)


def how_of(talk: Conversation | Thinned, name: str) -> str | None:
    return ends(talk).get(name, (None, None))[1]


@pytest.mark.parametrize(("pauses", "partitions"), [(3, (0, 1, 2)), (10, (1, 2, 3)), (10, (1, 2))])
def test_an_epoch_that_is_early_or_takes_nothing_ends_no_member_of_a_share_group(
    pauses: int, partitions: tuple[int, ...]
) -> None:
    """The coordinator may initialize share partitions, and raise the epoch once more after a join."""
    talk = Conversation()
    a, _ = shared(talk)
    for _ in range(pauses):
        talk.pause(5)
        a.heartbeat(2).given(2)
    a.heartbeat(2).given(3, assignment=handed(*partitions))
    assert how_of(talk, "b") is None


def test_a_join_after_the_last_heartbeat_is_another_reason_for_an_epoch() -> None:
    talk = Conversation()
    a, _ = shared(talk)
    for number in range(10):
        talk.pause(5)
        a.heartbeat(2).given(2)
        if number == 6:
            c = talk.member("c", connection=talk.connection(host="10.0.0.3"), joined=False)
            c.heartbeat(0, ["t"]).given(2, assignment=handed(2))
    a.heartbeat(2).given(3, assignment=handed(0, 1))
    assert how_of(talk, "b") is None


def test_tasks_of_a_killed_streams_member_are_assigned_to_another() -> None:
    talk = Conversation()
    a, b = talk.member("a", joined=False), talk.member("b", connection=talk.connection(host="10.0.0.2"), joined=False)
    for epoch, one, partition in ((1, a, 0), (2, b, 1)):
        given(
            streams(one, 0, topology=None),
            epoch,
            active_tasks=[task("0", partition)],
            standby_tasks=[],
            warmup_tasks=[],
        )
    given(streams(a, 1), 2)
    a.connection.reset()
    for _ in range(4):
        talk.pause(2)
        given(streams(b, 2), 2)
    given(streams(b, 2), 3, active_tasks=[task("0", 0, 1)], standby_tasks=[], warmup_tasks=[])
    assert (ends(talk), proof(talk)) == ({"a": (False, "expired"), "b": (True, None)}, "assigned_to_others")


def test_a_host_fell_silent_without_an_end_of_its_connection() -> None:
    """It may go on where the capture does not see it."""
    talk = Conversation()
    _, b = two(talk)
    goes_on(talk, b, 2, 8, given=3, assignment=handed(0, 1))
    assert ends(talk)["a"] == (True, None)
    goes_on(talk, b, 3, 50)
    assert ends(talk)["a"] == (None, None)


def test_a_member_that_left_the_capture_may_have_given_up_its_partitions() -> None:
    """A third member joins, and the coordinator moves partitions."""
    talk = Conversation()
    _, b = two(talk)
    goes_on(talk, b, 2, 8)
    c = talk.member("c", connection=talk.connection(host="10.0.0.3"), joined=False)
    joins(c, 3)
    goes_on(talk, c, 3, 4, assignment=handed(0))
    assert ends(talk) == {"a": (True, None), "b": (True, None), "c": (True, None)}


def test_partitions_that_a_member_gave_up_are_no_sign() -> None:
    talk = Conversation()
    a, b = two(talk)
    for _ in range(4):
        talk.pause(3)
        consumer(a, 2).given(2)
        consumer(b, 2).given(2)
    assert ends(talk) == {"a": (True, None), "b": (True, None)}
    for number, _ in talk.packets():
        assert "expired" not in [end for _, end in ends(talk.without_packets([number])).values()], number


def test_the_epoch_rises_after_a_member_was_killed() -> None:
    """It had no partition that others could get."""
    talk = Conversation()
    a, b = talk.member("a", joined=False), talk.member("b", connection=talk.connection(host="10.0.0.2"), joined=False)
    joins(a, 1)
    joins(b, 2, 0)
    consumer(a, 1).given(2)
    goes_on(talk, a, 2, 6)
    a.connection.reset()
    goes_on(talk, b, 2, 44)
    goes_on(talk, b, 2, 4, given=3)
    assert (ends(talk)["a"], proof(talk)) == ((False, "expired"), "epoch")


@pytest.mark.parametrize("reason", ["join", "topics", "subscription", "open", "early", "soon", "lost", "unanswered"])
def test_the_epoch_rises_for_another_reason(reason: str) -> None:
    talk = Conversation()
    a, b = talk.member("a", joined=False), talk.member("b", connection=talk.connection(host="10.0.0.2"), joined=False)
    joins(a, 1)
    joins(b, 2, 0)
    consumer(a, 1).given(2)
    if reason != "soon":
        goes_on(talk, a, 2, 6)
    if reason != "open":
        a.connection.reset()
    lost: list[int] = []
    if reason == "join":
        joins(talk.member("c", joined=False), 3)
    elif reason == "lost":
        other = talk.connection()
        other.api_versions("4.2")
        lost = other.api_versions("4.2").all_packets
        other.api_versions("4.2")
    elif reason == "unanswered":
        c = talk.member("c", joined=False)
        consumer(c, 0, subscribed_topic_names=["t"])
        c.connection.reset()
    elif reason == "topics":
        asked = talk.connection().ask(
            37, "CreatePartitions", 3, {"topics": [], "timeout_ms": 1, "validate_only": False}
        )
        asked.answered(None, results=[])
    elif reason == "subscription":
        consumer(b, 2, subscribed_topic_names=["t", "u"]).given(2)
    goes_on(talk, b, 2, 14 if reason == "early" else 44)
    goes_on(talk, b, 2, 4, given=3 if reason != "join" else 4)
    assert ends(talk.without_packets(lost))["a"] == (True if reason == "early" else None, None)


def test_an_instance_id_is_free_again() -> None:
    """The coordinator refuses it with 111 until the session of the killed member is over. Source: KIP-848."""
    talk = Conversation()
    a, b = talk.member("a", joined=False), talk.member("b", joined=False)
    joins(a, 1, 0, instance_id="i")
    a.connection.reset()
    for _ in range(10):
        talk.pause(5)
        consumer(b, 0, instance_id="i", subscribed_topic_names=["t"]).answered(111)
    joins(b, 2, 0, instance_id="i")
    assert (ends(talk), proof(talk)) == ({"a": (False, "expired"), "b": (True, None)}, "instance")


# -- the timeout


def alone(talk: Conversation) -> tuple[Member, Connection]:
    """The only member of a share group, and an administrator on another host."""
    return talk.member("a"), talk.connection(host="10.0.0.5")


def hears_of_others(talk: Conversation, connection: Connection, seconds: int) -> None:
    """The capture has other traffic all the time."""
    for _ in range(seconds):
        talk.pause(1)
        connection.api_versions("4.2")


@pytest.mark.parametrize(
    ("name", "of", "resource"),
    [("share.session.timeout.ms", GROUP, "g"), ("group.share.session.timeout.ms", BROKER_CONFIG, "1")],
)
def test_the_timeout_is_in_the_capture(name: str, of: int, resource: str) -> None:
    talk = Conversation()
    a, admin = alone(talk)
    describe_configs(admin, name, "6000", of=of, resource=resource)
    unchanged(a)
    a.connection.reset()
    hears_of_others(talk, admin, 4)
    assert ends(talk)["a"] == (True, None)
    hears_of_others(talk, admin, 6)
    assert (ends(talk)["a"], proof(talk)) == ((False, "expired"), "session_timeout")
    assert states(group(talk))[-1] == ("Empty", 0)
    (one,) = group(talk).members
    assert one.ended is not None
    assert one.last is not None
    assert 5.9e9 < one.ended.time_ns - one.last.time_ns < 6e9


def test_a_classic_member_says_its_timeout() -> None:
    talk = Conversation()
    admin = talk.connection(host="10.0.0.5")
    c = Classic(talk.connection(), "c")
    c.joins(1, c)
    c.syncs(1, 0, c=[0])
    c.connection.reset()
    hears_of_others(talk, admin, 12)
    assert (ends(talk)["c"], proof(talk, "c")) == ((False, "expired"), "session_timeout")


def test_a_classic_member_is_not_in_the_next_generation() -> None:
    talk = Conversation()
    c, d = Classic(talk.connection(), "c"), Classic(talk.connection(host="10.0.0.2"), "d")
    c.joins(1, c, d)
    d.joins(1)
    d.syncs(1, 1)
    c.syncs(1, 0, c=[0], d=[1])
    for _ in range(4):
        talk.pause(3)
        c.beats(1)
    c.beats(1, 27)
    c.joins(2, c)
    assert (ends(talk)["d"], proof(talk, "d")) == ((False, "expired"), "not_listed")


def describes(admin: Connection, *member_ids: str) -> None:
    """The coordinator of a share group lists its members."""
    asked = admin.ask(77, "ShareGroupDescribe", 1, {"group_ids": ["g"], "include_authorized_operations": False})
    blank = {"rack_id": None, "member_epoch": 1, "client_id": "c1", "client_host": "/10.0.0.7", "assignment": handed()}
    members = [{"member_id": name, **blank, "subscribed_topic_names": ["t"]} for name in member_ids]
    listed = {"group_id": "g", "group_state": "Stable", "group_epoch": 1, "assignment_epoch": 1, "members": members}
    asked.answered(None, groups=[{**listed, "assignor_name": "simple"}])


def test_members_that_only_the_coordinator_lists() -> None:
    """None of their messages is in the capture."""
    talk = Conversation()
    admin = talk.connection(host="10.0.0.5")
    describes(admin, "a", "b")
    describes(admin, "b")
    seen = metrics_of(talk).groups[0].members
    assert [(one.member_id, one.client_id, one.address, one.present) for one in seen] == [
        ("a", "c1", "10.0.0.7", False),
        ("b", "c1", "10.0.0.7", True),
    ]
    assert ends(talk) == {"a": (False, "unknown"), "b": (True, None)}
    hears_of_others(talk, admin, 50)
    assert ends(talk)["b"] == (None, None)
    assert [one.present for one in metrics_of(talk).groups[0].members] == [False, None]


@pytest.mark.parametrize("doubt", ["default", "open", "lost", "pause", "later", "described", "refused"])
def test_a_silence_that_is_no_end(doubt: str) -> None:
    """Unknown: the timeout is not shown or changed later, the connection only left the capture, bytes were lost, its
    clock may have stepped, or the coordinator still listed the member."""
    talk = Conversation()
    a, admin = alone(talk)
    if doubt == "refused":
        alter_configs(admin, "share.session.timeout.ms", "6000", error=29)
    elif doubt not in ("default", "later"):
        describe_configs(admin, "share.session.timeout.ms", "6000")
    unchanged(a)
    if doubt != "open":
        a.connection.reset()
    if doubt == "later":
        alter_configs(admin, "share.session.timeout.ms", "6000")
    other = talk.connection()
    lost: list[int] = []
    if doubt == "lost":
        other.api_versions("4.2")
        lost = other.api_versions("4.2").packets
        other.api_versions("4.2")
    if doubt == "pause":
        talk.pause(50)
        admin.api_versions("4.2")
    else:
        hears_of_others(talk, admin, 50)
    if doubt == "described":
        asked = admin.ask(77, "ShareGroupDescribe", 1, {"group_ids": ["g"], "include_authorized_operations": False})
        row = {
            "member_id": a.member_id,
            "rack_id": None,
            "member_epoch": 1,
            "client_id": "c1",
            "client_host": "/10.0.0.1",
        }
        listed = {"group_id": "g", "group_state": "Stable", "group_epoch": 1, "assignment_epoch": 1}
        member = {**row, "subscribed_topic_names": ["t"], "assignment": handed()}
        asked.answered(None, groups=[{**listed, "assignor_name": "simple", "members": [member]}])
        hears_of_others(talk, admin, 8)
    seen = talk.without_packets(lost)
    assert ends(seen)["a"] == (None, None)
    (one,) = [one for one in metrics_of(seen).groups[0].members if one.member_id == a.member_id]
    assert one.present is None


def test_a_silence_is_listed_with_its_timeout() -> None:
    talk = Conversation()
    _, admin = alone(talk)
    hears_of_others(talk, admin, 40)
    assert group(talk).members[0].present is True
    hears_of_others(talk, admin, 10)
    one = silent(talk)
    assert (one.silent.session_timeout_ms, one.silent.source) == (45_000, "default")  # type: ignore[union-attr]
    assert one.silent.packet == one.last.packet - 1  # type: ignore[union-attr]


def test_others_that_are_heard_after_the_timeout_must_show_it() -> None:
    """Their epoch would rise: a member that is still in the group only left the capture."""
    talk = Conversation()
    a, b = two(talk)
    describe_configs(talk.connection(host="10.0.0.5"), "consumer.session.timeout.ms", "6000")
    a.connection.reset()
    goes_on(talk, b, 2, 20)
    assert ends(talk) == {"a": (None, None), "b": (True, None)}


def test_a_request_that_becomes_known_late_was_no_silence() -> None:
    talk = Conversation()
    a, b = two(talk)
    talk.pause(7)
    consumer(a, 2)
    a.connection.reset()
    consumer(b, 2).given(3, assignment=handed(0, 1))
    assert ends(talk)["a"] == (True, None)


def test_a_member_is_heard_again() -> None:
    """After the end of its session it joins again on another connection."""
    talk = Conversation()
    a, b = two(talk)
    a.connection.reset()
    a = a.on(talk.connection())
    goes_on(talk, b, 2, 8, given=3, assignment=handed(0, 1))
    consumer(a, 2).answered(UNKNOWN_MEMBER_ID)
    assert ends(talk)["a"] == (False, "expired")
    joins(a, 4, 0)
    assert ends(talk)["a"] == (True, None)


def test_a_static_member_that_is_away_is_in_the_group_until_its_session_expires() -> None:
    talk = Conversation()
    a, b = talk.member("a", joined=False), talk.member("b", connection=talk.connection(host="10.0.0.2"), joined=False)
    joins(a, 1, 0, instance_id="i")
    joins(b, 2, 1)
    consumer(a, 1, instance_id="i").given(2)
    consumer(a, -2, instance_id="i").given(-2)
    a.connection.close()
    seen = group(talk)
    assert (seen.state, ends(talk)["a"]) == ("Reconciling", (True, "away"))
    goes_on(talk, b, 2, 8, given=3, assignment=handed(0, 1))
    assert (group(talk).state, ends(talk)["a"]) == ("Stable", (False, "expired"))


def test_no_missing_packet_ends_a_session() -> None:
    talk = Conversation()
    a, b = two(talk)
    admin = talk.connection(host="10.0.0.5")
    describe_configs(admin, "consumer.session.timeout.ms", "6000")
    for epoch in (2, 2, 2, 2):
        talk.pause(3)
        consumer(a, epoch).given(epoch)
        talk.pause(1)
        consumer(b, epoch).given(epoch)
    joins(talk.member("c", connection=talk.connection(host="10.0.0.3"), joined=False), 3)
    consumer(a, 2).given(3)
    consumer(b, 2).given(3)
    for first, _ in talk.packets():
        for lost in ([first], [n for n, _ in talk.packets() if n >= first and n % 3]):
            assert "expired" not in [end for _, end in ends(talk.without_packets(lost)).values()], lost


def test_pauses_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The length of older silences is unknown."""
    talk = Conversation()
    a, admin = alone(talk)
    describe_configs(admin, "share.session.timeout.ms", "6000")
    unchanged(a)
    a.connection.reset()
    for tenths in range(19, 0, -1):
        talk.pause(tenths / 10)
        admin.api_versions("4.2")
    assert ends(talk)["a"] == (False, "expired")
    monkeypatch.setattr(limits, "PAUSES", 3)
    assert ends(talk)["a"] == (None, None)


def test_a_clock_that_runs_backwards_ends_no_session() -> None:
    talk = Conversation()
    a, admin = alone(talk)
    describe_configs(admin, "share.session.timeout.ms", "6000")
    unchanged(a)
    a.connection.reset()
    hears_of_others(talk, admin, 4)
    talk.pause(-3)
    hears_of_others(talk, admin, 20)
    assert ends(talk)["a"] == (None, None)


# -- classic members


def in_two(talk: Conversation) -> tuple[Classic, Classic]:
    """A member of a classic group, and a client that is none yet."""
    a, b = Classic(talk.connection(host="10.0.0.2"), "a"), Classic(talk.connection(host="10.0.0.3"), "b")
    a.joins(1, a)
    a.syncs(1, 0)
    return a, b


def goes_on_without(talk: Conversation, a: Classic, b: Classic, seconds: int) -> None:
    """Member a knows that b joins, and sends heartbeats, but no JoinGroup."""
    joining = b.join()
    for _ in range(seconds):
        a.beats(1, 27)
        talk.pause(1)
    members = [{"member_id": "b", "group_instance_id": None, "metadata": b""}]
    joining.answered(generation_id=2, protocol_name="range", leader="b", member_id="b", members=members)


@pytest.mark.parametrize(("seconds", "how"), [(10, "not_rejoined"), (8, "unknown")])
def test_a_group_goes_on_without_a_member_that_did_not_join_again(seconds: int, how: str) -> None:
    talk = Conversation()
    a, b = in_two(talk)
    goes_on_without(talk, a, b, seconds)
    assert ends(talk) == {"a": (False, how), "b": (True, None)}


def test_a_static_member_whose_process_came_back_was_replaced() -> None:
    """The leader's answer lists it before it has its own."""
    talk = Conversation()
    a, b = in_two(talk)
    b.instance_id = "i"
    before = Classic(talk.connection(host="10.0.0.4"), "c", instance_id="i")
    a.joins(2, a, before)
    before.joins(2)
    before.connection.reset()
    talk.pause(11)
    a.joins(3, a, b)
    assert ends(talk)["c"] == (False, "replaced")


def test_a_member_that_was_frozen_is_unknown_because_its_session_was_over() -> None:
    talk = Conversation()
    a, _ = in_two(talk)
    talk.pause(30)
    a.beats(1, UNKNOWN_MEMBER_ID)
    (one,) = group(talk).members
    assert one.ended is not None
    assert (one.ended.how, one.ended.because, one.ended.timeout_ms) == ("expired", "refused", 10_000)
    assert one.last is not None
    assert round((one.last.time_ns - one.ended.time_ns) / 1e9) == 20


def test_a_member_that_is_unknown_soon_is_no_expired_one() -> None:
    talk = Conversation()
    a, _ = in_two(talk)
    talk.pause(5)
    a.beats(1, UNKNOWN_MEMBER_ID)
    assert ends(talk) == {"a": (False, "unknown")}


@pytest.mark.parametrize(("error", "seconds"), [(0, 16), (25, 10), (27, 10)])
def test_an_accepted_commit_keeps_the_session_of_a_classic_member(error: int, seconds: int) -> None:
    talk = Conversation()
    a, other = in_two(talk)
    talk.pause(6)
    Member(a.connection, "c", "a").commit(1).committed(error)
    a.connection.reset()
    other.group_id = "other"
    for _ in range(30):
        talk.pause(1)
        other.beats(1)
    one = next(it for each in groups(talk) if each.group_id == "c" for it in each.members)
    assert one.ended is not None
    assert one.joined is not None
    assert (one.ended.how, round((one.ended.time_ns - one.joined.time_ns) / 1e9)) == ("expired", seconds)

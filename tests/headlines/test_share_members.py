"""What the first screen says of members of share groups, from the packets of their conversations."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from kshark.headlines import Headline, Headlines
from kshark.pipeline import JUDGED
from kshark.run import Run
from tests.analysis.rules.promises.acknowledgements import holding, refused
from tests.analysis.talks import broker_closes, handed, opened, stranger
from tests.conversation import Conversation, Member, Thinned, events, registry

ACCEPT = 1
SHARE_SESSION_NOT_FOUND = 122
UNRELEASED_INSTANCE_ID = 111
STALE_MEMBER_EPOCH = 113


def headlines(talk: Conversation | Thinned, selected: Collection[str] = ()) -> list[Headline]:
    """Return what `kshark check` says first, with `--select` of some codes."""
    run = Run(registry(), shows=lambda finding: not selected or finding.code in selected)
    said = Headlines(selected)
    run.page(events(talk, JUDGED))
    run.close()
    for finding in run.findings:
        said.add(finding)
    return said.of(run.outcomes)


def headline(talk: Conversation | Thinned, code: str | None) -> Headline:
    (found,) = [said for said in headlines(talk) if said.code == code]
    return found


# -- lost sessions


def loses(talk: Conversation, member: Member, epoch: int, *, quiet_s: float = 4, by_broker: bool = False) -> Member:
    """The connection of an open session closes, and the session is gone; the member opens another one."""
    talk.pause(quiet_s)
    if by_broker:
        broker_closes(member.connection)
    else:
        member.connection.close()
    member = member.on(talk.connection())
    member.share_fetch(epoch).answered(SHARE_SESSION_NOT_FOUND)
    member.share_fetch(0).answered()
    return member


def test_lost_sessions_are_counted_of_all_that_the_clients_had() -> None:
    talk = Conversation()
    a, b = opened(talk), opened(talk, name="b")
    a = loses(talk, a, 1)
    loses(talk, loses(talk, a, 1), 1)
    b.share_fetch(1).answered()
    assert "lost 3 of 4 share sessions, group g, " in headline(talk, "SESSION_UNKNOWN").text


def test_requests_that_are_refused_for_one_lost_session_are_one_loss() -> None:
    talk = Conversation()
    a = opened(talk)
    a.connection.close()
    a = a.on(talk.connection())
    for _ in range(3):
        a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    said = headline(talk, "SESSION_UNKNOWN")
    assert "lost its only share session, group g, " in said.text
    assert said.count == 3


def test_a_session_that_began_before_the_capture_leaves_no_total() -> None:
    talk = Conversation()
    stranger(talk, "b").share_fetch(7).answered()
    loses(talk, opened(talk, name="b"), 1)
    assert "lost 1 share session, group g, " in headline(talk, "SESSION_UNKNOWN").text


def test_bytes_that_are_missing_leave_no_total() -> None:
    talk = Conversation()
    a = loses(talk, opened(talk), 1)
    asked = a.share_fetch(1).answered()
    a.share_fetch(2).answered()
    assert "lost 1 of 2 share sessions" in headline(talk, "SESSION_UNKNOWN").text
    assert "lost 1 share session, " in headline(talk.without_packets(asked.packets), "SESSION_UNKNOWN").text


def test_the_side_that_closed_the_connection_is_named_with_the_time_without_answers() -> None:
    talk = Conversation()
    loses(talk, loses(talk, opened(talk), 1), 1, quiet_s=9)
    said = headline(talk, "SESSION_UNKNOWN")
    assert said.text.endswith(
        ": the client itself closed the connection that opened the session, 4.00 s to 9.00 s after the session's last "
        "answer, which ended it (Kafka 4.1 and later)."
    )
    assert "the time after which it closes idle connections" in said.advice


def test_a_broker_that_closed_the_connection_is_named_too() -> None:
    talk = Conversation()
    opened(talk, name="b")  # else the broker may have been restarted
    loses(talk, opened(talk), 1, by_broker=True)
    said = headline(talk, "SESSION_UNKNOWN")
    assert ": the broker itself closed the connection" in said.text
    assert said.advice.endswith("If they were not idle, look into the broker's log.")


def test_connections_that_either_side_closed_leave_the_general_reason() -> None:
    talk = Conversation()
    opened(talk, name="b")
    loses(talk, loses(talk, opened(talk), 1), 1, by_broker=True)
    said = headline(talk, "SESSION_UNKNOWN")
    assert said.text.endswith(": the connection that opened the session closed, which ended the session (Kafka 4.1 and "
                              "later).")  # fmt: skip
    assert "because they are idle" in said.advice


# -- refused acknowledgements


def test_one_cause_of_all_refusals_is_said_though_it_is_about_one_record_of_each() -> None:
    """A broker refuses a batch for its first record whose lock had expired."""
    talk = Conversation()
    a = holding(talk, (0, 9), lock_ms=2000)
    talk.pause(3)
    refused(a, 1, (0, 99, ACCEPT))
    said = headline(talk, "ACK_AFTER_LOCK_TIMEOUT")
    assert "all 100 records that it acknowledged were refused with INVALID_RECORD_STATE, because its locks had" in (
        said.text
    )


def test_one_cause_of_most_refusals_is_said_with_their_number() -> None:
    talk = Conversation()
    a = holding(talk, (0, 9), lock_ms=2000)
    talk.pause(3)
    refused(a, 1, (0, 4, ACCEPT))
    refused(a, 2, (5, 9, ACCEPT))
    refused(a, 3, (100, 104, ACCEPT))
    assert "INVALID_RECORD_STATE, in 2 of 3 cases because its locks had expired" in (
        headline(talk, "ACK_AFTER_LOCK_TIMEOUT").text
    )


# -- members that get nothing


def starves(talk: Conversation, member: Member, *, times: int = 12, first: int = 0) -> None:
    """Fetches of partition 0 come back empty after their max_wait_ms."""
    for epoch in range(first, first + times):
        asked = member.share_fetch(epoch, [] if epoch else [0])
        talk.pause(0.5)
        asked.answered()


def lacking(talk: Conversation) -> list[str]:
    return [said.text for said in headlines(talk) if said.kind == "hurt" and said.code is None]


def test_a_member_that_gets_nothing_is_told_where_the_records_went() -> None:
    talk = Conversation()
    starves(talk, b := talk.member("b"), times=6)
    a = holding(talk, (0, 199))
    a.share_acknowledge(1, [(0, 149, ACCEPT)]).answered()
    starves(talk, b, times=6, first=6)
    (text,) = lacking(talk)
    assert text == (
        "Client c1 (apache-kafka-java 4.3.1), group g: got no records in 5.53 s: all 12 fetches came back empty; "
        "meanwhile other members got 200 records of its partitions; they hold 50 now (c1 50)."
    )


def test_records_that_were_gone_before_it_came_are_told_as_such() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 199)))
    a.share_acknowledge(1, [(0, 199, ACCEPT)]).answered()
    starves(talk, talk.member("b"))
    (text,) = lacking(talk)
    assert text.endswith(
        "all 12 fetches came back empty; other members had got 200 records of its partitions before, and none since."
    )


def test_members_that_get_nothing_share_a_headline() -> None:
    talk = Conversation()
    holding(talk, (0, 199))
    for name in "bcd":
        starves(talk, talk.member(name, connection=talk.connection(host=f"10.0.1.{ord(name)}")))
    (text,) = lacking(talk)
    assert text.startswith("3 clients (c1), group g: got no records in 5.5")
    assert "all 36 fetches came back empty; other members had got 200 records of their partitions before" in text


@pytest.mark.parametrize(("partition", "group", "records", "times"), [
    (1, "g", 200, 12),  # of a partition that it does not fetch
    (0, "h", 200, 12),  # of another group
    (0, "g", 99, 12),  # too few to expect some
    (0, "g", 200, 4),  # too short
])  # fmt: skip
def test_a_member_whose_partitions_had_nothing_to_give_is_not_named(
    partition: int, group: str, records: int, times: int
) -> None:
    talk = Conversation()
    talk.member("a", group).share_fetch(0, [partition]).answered(responses=handed((partition, 0, records - 1)))
    starves(talk, talk.member("b"), times=times)
    assert lacking(talk) == []


def test_a_partition_that_it_gave_up_counts_until_then() -> None:
    talk = Conversation()
    b, a = talk.member("b"), talk.member("a")
    b.share_fetch(0, [0]).answered()
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 49)))
    b.share_fetch(1, [1], forget=[0]).answered()
    a.share_fetch(1).answered(responses=handed((0, 50, 249)))
    starves(talk, b, first=2)
    assert lacking(talk) == []


def test_a_full_partition_names_whom_it_keeps_waiting() -> None:
    talk = Conversation()
    holding(talk, (0, 499), (500, 1999))
    starves(talk, talk.member("b"), times=4)
    assert (
        " Client c1 got none of its records: all 4 fetches came back empty." in headline(talk, "WINDOW_SATURATED").text
    )


def test_what_may_be_ordinary_comes_after_violations() -> None:
    talk = Conversation()
    holding(talk, (0, 199))
    starves(talk, talk.member("b"))
    a = talk.consumer("d")
    a.heartbeat(1).given(2)
    a.heartbeat(2).given(2)
    a.commit(1).committed(STALE_MEMBER_EPOCH)
    assert [said.code for said in headlines(talk)] == ["CONSUMER_EPOCH_STALE", None]


# -- notes again and again


def static_member(talk: Conversation, attempts: int, *, names: str = "ab") -> Conversation:
    """A member joins with the instance id of one that did not leave, every 5 s."""
    a, b = (talk.consumer(name, joined=False) for name in names)
    a.heartbeat(0, ["t"], instance_id=names).given(1, assignment={"topic_partitions": []})
    for _ in range(attempts):
        b.heartbeat(0, ["t"], instance_id=names).answered(UNRELEASED_INSTANCE_ID)
        talk.pause(5)
    return talk


def test_a_member_that_is_locked_out_for_long_has_a_headline() -> None:
    said = headline(static_member(Conversation(), 4), "INSTANCE_ID_TAKEN")
    assert said.text.startswith("Client c1 (apache-kafka-java 4.3.1) could not join for 15.0 s, group g, 4 attempts, ")
    assert ": the process before did not leave, and its session runs until its timeout. First: " in said.text
    assert (said.kind, said.verdict, said.blame) == ("hurt", "note", None)


def test_members_that_are_locked_out_share_a_headline() -> None:
    talk = static_member(Conversation(), 4)
    static_member(talk, 3, names="cd")
    said = headline(talk, "INSTANCE_ID_TAKEN")
    assert " could not join for 15.0 s, group g, 7 attempts, " in said.text


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_few_refusals_of_an_instance_id_are_ordinary(attempts: int) -> None:
    talk = Conversation()
    for names in ("ab", "cd", "ef"):  # a deployment that restarts one after the other
        static_member(talk, attempts, names=names)
    assert headlines(talk) == []


def test_who_is_hurt_is_not_said_beside_other_codes() -> None:
    talk = Conversation()
    holding(talk, (0, 199))
    starves(talk, talk.member("b"))
    assert lacking(talk)
    assert headlines(talk, ["EPOCH_STALE"]) == []


def test_a_code_that_is_selected_has_a_headline_if_it_has_findings() -> None:
    talk = static_member(Conversation(), 1)
    (said,) = headlines(talk, ["EPOCH_STALE", "INSTANCE_ID_TAKEN"])
    assert said.code == "INSTANCE_ID_TAKEN"
    assert said.text.startswith("A group.instance.id is in use by another member, or its member left for good: client")

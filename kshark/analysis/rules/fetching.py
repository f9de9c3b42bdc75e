"""Which partitions members fetch, and from where. Rules 66, 92 and 93."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import CONNECTION, EXCHANGE, Argument
from kshark.analysis.facts.calls import SUBSEQUENT
from kshark.analysis.facts.heartbeats import ACCEPTED
from kshark.analysis.rules.rule import NOTES, Check, Rule
from kshark.analysis.rules.triggers import NOT_PLAIN, SETTLES
from kshark.analysis.states.member.situation import MemberSituation
from kshark.analysis.states.partition.situations import Misdirected, Unserved
from kshark.analysis.states.tables import IN_FLIGHT, MEMBER

_UNKNOWN_SERVER_ERROR: Final = -1
#: A client may know more than the broker, which leads the partition again and has not heard of it: that lasts no
#: longer.
_BEHIND_NS: Final = 5_000_000_000


def hint_ignored(now: Misdirected) -> Argument | None:
    """The broker said long ago who leads the partition, and does so at each fetch: told at the first one after that
    time."""
    step, (leader, first, last), broker = now.step, now.hint, now.session.broker
    late_ns = first.end_ns + _BEHIND_NS
    if not last.time_ns <= late_ns < step.time_ns:
        return None
    if leader.address in broker.addresses or (broker.node is not None and broker.node[1] == leader.node_id):
        return None
    text = (
        f"{first.here} was answered that broker {leader.node_id} at {leader.address} leads partition "
        f"{now.partition[1]} "
        f"({first.packets}); {step.here} still fetches it here, {(step.time_ns - first.end_ns) / 1e9:.1f} s later "
        f"({step.packets})"
    )
    return Argument(text, (first, step), EXCHANGE, partition=now.partition)


def left_aside(now: MemberSituation) -> Argument | None:
    """A partition was assigned long ago and never listed, though there are records: its leader hands them to somebody
    else.

    The member has a session with that leader: what it sends there the capture holds. The epoch shows that it was told
    nothing else."""
    member, step, given = now.member, now.step, now.member.assigned_by
    if given is None or given.assigned is None or not member.settles(step):
        return None
    told = member.told(step.packet)
    if (
        member.join is None
        or member.listed is None
        or told is None
        or told.packet != given.end
        or step.epoch != member.epoch
    ):
        return None
    hosts = {step.connection.host, member.join.connection.host}
    for partition in sorted(given.assigned - member.listed):
        acquisition = now.last_acquisition(partition)
        if acquisition is None:
            continue
        leader, other = acquisition
        if other.member_id == step.member_id or other.packet < given.end:
            continue
        if leader not in member.brokers or leader.missing_between(hosts, 0, step.packet) is not None:
            continue
        text = (
            f"{given.here} assigned partition {partition[1]} ({given.packets}), and the member has not asked for it "
            f"{(step.time_ns - given.end_ns) / 1e9:.1f} s later; {other.here} of another member was handed records of "
            f"it ({other.packets})"
        )
        return Argument(text, (given, other, step), CONNECTION, partition=partition)
    return None


def uninitialized(now: Unserved) -> Argument | None:
    """A partition without a state: its group never subscribed to the topic, or is none; or it is about to get one."""
    if now.error != _UNKNOWN_SERVER_ERROR or now.known:
        return None
    text = (
        f"{now.step.here} was answered UNKNOWN_SERVER_ERROR for partition {now.partition[1]} ({now.step.packets}), of "
        f"which nobody in the "
        "group was handed records before"
    )
    return Argument(text, (now.step,), EXCHANGE, partition=now.partition)


ROWS: Final = (
    Rule(
        number=66,
        code="LEADER_HINT_IGNORED",
        text="A member keeps fetching a partition from a broker whose answers name another leader.",
        must="A partition is fetched from its leader.",
        advice="Fetch from the current_leader of the answer, at its address in node_endpoints, and forget the "
        "partition in the old session. Only the leader delivers its records.",
        wrong="ShareFetch epoch 0, list t[0] → 0, t[0] 6, leader 2; 6000 ms later; ShareFetch epoch 1 → 0, t[0] 6, "
        "leader 2",
        right="ShareFetch epoch 0, list t[0] → 0, t[0] 6, leader 2; ShareFetch epoch 1, forget t[0] → 0",
        source="KIP-951; Kafka: ShareConsumeRequestManager",
        machine=IN_FLIGHT,
        checks=(Check(hint_ignored, about=Misdirected, trigger=NOT_PLAIN),),
    ),
    Rule(
        number=92,
        code="ASSIGNED_NEVER_FETCHED",
        text="A member does not fetch a partition that is assigned to it. Other members get its records.",
        advice="List every assigned partition in the session with its leader. Look for a leader that Metadata does "
        "not name, and for an application that rarely polls. If no other member fetches the partition, its records "
        "are not consumed.",
        wrong="a is assigned t[0] t[1]; ShareFetch epoch 0, list t[1] → 0; by b: ShareFetch epoch 0, list t[0] → 0, "
        "offsets 0-9; "
        "10000 ms later; ShareGroupHeartbeat epoch 1 → 0",
        right="a is assigned t[0] t[1]; ShareFetch epoch 0, list t[0] t[1] → 0",
        source="KIP-932",
        blame=(),
        verdicts=NOTES,
        machine=MEMBER,
        checks=(Check(left_aside, (SUBSEQUENT,), (ACCEPTED,), SETTLES),),
    ),
    Rule(
        number=93,
        code="PARTITION_UNINITIALIZED",
        text="A partition cannot be fetched: its leader has no state of it for this share group.",
        advice="Join the group and subscribe to the topic first: the coordinator then initializes the partitions that "
        "it assigns. While brokers start, or a group is new, the error is temporary: fetch again a little later.",
        wrong="ShareFetch epoch 0, list t[0] → 0, t[0] -1",
        right="ShareGroupHeartbeat epoch 0, topics t → 0, assigned t[0]; ShareFetch epoch 0, list t[0] → 0",
        source="Kafka: SharePartition.fetchPersisterError",
        blame=(),
        verdicts=NOTES,
        machine=IN_FLIGHT,
        checks=(Check(uninitialized, about=Unserved, trigger=NOT_PLAIN),),
    ),
)

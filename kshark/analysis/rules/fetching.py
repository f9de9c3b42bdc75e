"""Rules 66, 92 and 93: which partitions members fetch, and from which broker."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import CONNECTION, EXCHANGE, Argument, at_least
from kshark.analysis.facts.bases import ANSWER_RECEIVED, AT_LEAST, NO_CONNECTION, NO_MEMBER
from kshark.analysis.facts.calls import SUBSEQUENT, Partition, ShareStep
from kshark.analysis.facts.heartbeats import ACCEPTED
from kshark.analysis.rules.rule import NOTES, Check, Rule
from kshark.analysis.rules.triggers import NOT_PLAIN, SETTLES
from kshark.analysis.states.member.situation import MemberSituation
from kshark.analysis.states.partition.situations import Misdirected, Unserved
from kshark.analysis.states.tables import IN_FLIGHT, MEMBER

_UNKNOWN_SERVER_ERROR: Final = -1
#: A client may learn up to 5 s before the broker itself that this broker leads the partition again.
_BROKER_LAG_NS: Final = 5_000_000_000


def hint_ignored(situation: Misdirected) -> Argument | None:
    """Report a fetch from a broker that named another leader long ago, and at each fetch since.

    Only the first fetch after that time is reported.
    """
    step, (leader, first, last), broker = situation.step, situation.hint, situation.session.broker
    late_ns = first.end_ns + _BROKER_LAG_NS
    if not last.time_ns <= late_ns < step.time_ns:
        return None
    if leader.address in broker.addresses or (broker.node is not None and broker.node[1] == leader.node_id):
        return None
    text = (
        f"the answer to {first.here} names broker {leader.node_id} at {leader.address} as the leader of partition "
        f"{situation.partition[1]} ({first.packets}); {step.here} still fetches it here, "
        f"{(step.time_ns - first.end_ns) / 1e9:.1f} s later ({step.packets})"
    )
    ground = at_least(_BROKER_LAG_NS, first.ended, step)
    return Argument(text, (first, step), EXCHANGE.after(first), partition=situation.partition, grounds=(ground,))


def left_aside(situation: MemberSituation) -> Argument | None:
    """Note a partition that was assigned long ago and never listed, while its leader delivers records to other members.

    The member has a session with that leader, so the capture holds its requests there. The member epoch shows that no
    other assignment came since.
    """
    member, step, given = situation.member, situation.step, situation.member.assigned_by
    if given is None or given.assigned is None or not member.settles(step):
        return None
    assignment = member.assignment_at(step.packet)
    if member.join is None or member.listed is None or assignment is None:
        return None
    if assignment.packet != given.end or step.epoch != member.epoch:
        return None
    for partition in sorted(given.assigned - member.listed):
        other = _delivered_to_another(situation, partition, member.join.connection.host)
        if other is None or other.packet < given.end:
            continue
        text = (
            f"{given.here} assigned partition {partition[1]} ({given.packets}), and the member has not fetched it "
            f"{(step.time_ns - given.end_ns) / 1e9:.1f} s later; {other.here} of another member received records of "
            f"it ({other.packets})"
        )
        return Argument(text, (given, other, step), CONNECTION, partition=partition)
    return None


def _delivered_to_another(situation: MemberSituation, partition: Partition, host: str) -> ShareStep | None:
    """Return the last fetch of the partition, if it is another member's, and nothing of this member is missing."""
    step, acquisition = situation.step, situation.last_acquisition(partition)
    if acquisition is None:
        return None
    leader, other = acquisition
    if other.member_id == step.member_id or leader not in situation.member.brokers:
        return None
    return None if leader.missing_between({step.connection.host, host}, 0, step.packet) is not None else other


def uninitialized(situation: Unserved) -> Argument | None:
    """Note a partition without a share-group state.

    Its group never subscribed to the topic, or is no share group, or the state is about to be initialized.
    """
    if situation.error != _UNKNOWN_SERVER_ERROR or situation.was_served:
        return None
    step, partition = situation.step, situation.partition
    text = (
        f"{step.here} was answered UNKNOWN_SERVER_ERROR for partition {partition[1]} ({step.packets}), and no member "
        f"of the group received records of it before"
    )
    return Argument(text, (step,), EXCHANGE, partition=partition)


ROWS: Final = (
    Rule(
        number=66,
        code="LEADER_HINT_IGNORED",
        text="A member keeps fetching a partition from a broker whose answers name another leader.",
        act="kept fetching from a broker whose answers name another leader",
        weight=50,
        must="A partition is fetched from its leader.",
        advice="Fetch from the current_leader of the answer, at its address in node_endpoints, and forget the "
        "partition in the old session. Only the leader delivers its records.",
        wrong="ShareFetch epoch 0, list t[0] → 0, t[0] 6, leader 2; 6000 ms later; ShareFetch epoch 1 → 0, t[0] 6, "
        "leader 2",
        right="ShareFetch epoch 0, list t[0] → 0, t[0] 6, leader 2; ShareFetch epoch 1, forget t[0] → 0",
        provoked_by="Move the leader of a fetched partition (kafka-leader-election.sh, or stop its broker) while the "
        "client fetches.",
        source="KIP-951; Kafka: ShareConsumeRequestManager",
        rests_on=(AT_LEAST, ANSWER_RECEIVED),
        machine=IN_FLIGHT,
        checks=(Check(hint_ignored, about=Misdirected, trigger=NOT_PLAIN),),
    ),
    Rule(
        number=92,
        code="ASSIGNED_NEVER_FETCHED",
        text="A member does not fetch a partition that is assigned to it. Other members get its records.",
        weight=28,
        advice="List every assigned partition in the session with its leader. Look for a leader that Metadata does "
        "not name, and for an application that rarely polls. If no other member fetches the partition, its records "
        "are not consumed.",
        wrong="a is assigned t[0] t[1]; ShareFetch epoch 0, list t[1] → 0; by b: ShareFetch epoch 0, list t[0] → 0, "
        "offsets 0-9; "
        "10000 ms later; ShareGroupHeartbeat epoch 1 → 0",
        right="a is assigned t[0] t[1]; ShareFetch epoch 0, list t[0] t[1] → 0",
        source="KIP-932",
        rests_on=(AT_LEAST, NO_CONNECTION),
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
        rests_on=(NO_MEMBER,),
        blame=(),
        verdicts=NOTES,
        machine=IN_FLIGHT,
        checks=(Check(uninitialized, about=Unserved, trigger=NOT_PLAIN),),
    ),
)

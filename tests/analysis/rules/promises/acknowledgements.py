"""Promises of kshark.analysis.rules.acknowledgements: why acknowledgements of a partition were refused."""

from __future__ import annotations

from tests.analysis.coordinators import AVAILABLE, leader
from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import handed, stranger
from tests.conversation import Asked, Conversation, Member, note, unknown, violation

INVALID_REQUEST = 42
INVALID_RECORD_STATE = 121
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


def holding(
    talk: Conversation, *ranges: tuple[int, ...], name: str = "a", lock_ms: int = 30_000, joined: bool = True
) -> Member:
    """Return a member that holds these records of partition 0: first, last, and the delivery count unless it is 1."""
    member = talk.member(name, joined=joined)
    member.share_fetch(0, [0]).answered(
        responses=handed(*((0, *range_) for range_ in ranges)), acquisition_lock_timeout_ms=lock_ms
    )
    return member


def refused(
    member: Member, epoch: int, *acks: tuple[int, int, int], error: int = INVALID_RECORD_STATE, partition: int = 0
) -> Asked:
    """Send a ShareAcknowledge whose partition is refused."""
    return member.share_acknowledge(epoch, acks, partition=partition).answered(acks={partition: error})


def malformed(
    code: str, cause: str, *batches: tuple[int, int, list[int]], error: int = INVALID_REQUEST, version: int = 2
) -> Said:
    """Send batches that brokers refuse."""
    talk = Conversation()
    a = holding(talk, (0, 9))
    acks = [{"first_offset": first, "last_offset": last, "acknowledge_types": types} for first, last, types in batches]
    asked = a.share_acknowledge(1, [(0, 0, ACCEPT)], version=version, batches=acks).answered(acks={0: error})
    return talk, [violation(code, asked, blame="client", cause=cause)]


@promise
def a_batch_ends_before_it_begins() -> Said:
    return malformed("ACK_RANGE_INVERTED", "inverted", (3, 1, [ACCEPT]))


@promise
def batches_overlap() -> Said:
    return malformed("ACK_BATCHES_OVERLAP", "overlap", (0, 3, [ACCEPT]), (2, 5, [ACCEPT]))


@promise
def batches_touch_in_one_offset() -> Said:
    return malformed("ACK_BATCHES_OVERLAP", "overlap", (0, 3, [ACCEPT]), (3, 5, [ACCEPT]), error=INVALID_RECORD_STATE)


@promise
def a_batch_has_no_type() -> Said:
    return malformed("ACK_TYPES_EMPTY", "no_types", (0, 1, []))


@promise
def a_batch_has_two_types_for_four_offsets() -> Said:
    return malformed("ACK_TYPES_COUNT", "types_count", (0, 3, [ACCEPT, REJECT]))


@promise
def a_type_is_not_in_the_version() -> Said:
    return malformed("ACK_TYPE_UNKNOWN", "type_unknown", (0, 0, [RENEW]), version=1)


@promise
def a_lock_is_renewed_without_the_flag() -> Said:
    return malformed("RENEW_WITHOUT_FLAG", "renew_without_flag", (0, 0, [RENEW]))


@promise
def offsets_after_the_last_acquired_are_acknowledged() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    return talk, [
        violation(
            "ACK_NOT_ACQUIRED",
            refused(a, 1, (500, 509, ACCEPT), error=INVALID_REQUEST),
            blame="client",
            cause="beyond_end",
        )
    ]


@promise
def released_records_are_acknowledged() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    a.share_acknowledge(1, [(0, 4, RELEASE)]).answered()
    return talk, [violation("ACK_NOT_ACQUIRED", refused(a, 2, (0, 4, ACCEPT)), blame="client", cause="not_acquired")]


@promise
def records_that_were_never_delivered_are_acknowledged() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 4), (10, 14))
    return talk, [violation("ACK_NOT_ACQUIRED", refused(a, 1, (0, 14, ACCEPT)), blame="client", cause="not_acquired")]


@promise
def records_of_a_partition_without_deliveries_are_acknowledged() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    asked = refused(a, 1, (0, 0, ACCEPT), error=3, partition=7)
    return talk, [violation("ACK_NOT_ACQUIRED", asked, blame="client", cause="nothing_acquired")]


@promise
def a_member_that_joined_before_the_capture_may_have_acquired_records() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 4), (10, 14), joined=False)
    return talk, [unknown("ACK_REFUSED", refused(a, 1, (0, 14, ACCEPT)), because="beginning_not_seen", cause="unknown")]


@promise
def records_of_another_member_are_acknowledged() -> Said:
    talk = Conversation()
    holding(talk, (0, 9), name="b")
    a = holding(talk, (10, 19))
    return talk, [violation("ACK_NOT_OWNER", refused(a, 1, (5, 14, ACCEPT)), blame="client", cause="not_owner")]


@promise
def records_are_acknowledged_twice() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    a.share_acknowledge(1, [(5, 9, ACCEPT)]).answered()
    return talk, [violation("DOUBLE_ACK", refused(a, 2, (9, 9, REJECT)), blame="client", cause="twice")]


@promise
def records_below_the_start_offset_are_acknowledged_twice_without_an_error() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    again = a.share_acknowledge(2, [(0, 4, ACCEPT)]).answered()
    return talk, [violation("DOUBLE_ACK", again, blame="client", cause="twice")]


@promise
def records_are_acknowledged_after_their_lock_expired() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9), lock_ms=2000)
    talk.pause(3)
    return talk, [note("ACK_AFTER_LOCK_TIMEOUT", refused(a, 1, (0, 9, ACCEPT)), cause="after_lock")]


@promise
def a_lock_that_may_have_expired_explains_nothing() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9), lock_ms=2000)
    talk.pause(2)
    return talk, [unknown("ACK_REFUSED", refused(a, 1, (0, 9, ACCEPT)), because="lock_unknown", cause="unknown")]


@promise
def records_that_another_member_acquired_meanwhile_had_an_expired_lock() -> Said:
    talk = Conversation(release="4.0")
    a = holding(talk, (0, 9), lock_ms=0)
    talk.pause(3)
    holding(talk, (0, 9, 2), name="b", lock_ms=0)
    again = talk.exchanges[-1]
    return talk, [
        note("NEVER_ACKED", again),
        note("ACK_AFTER_LOCK_TIMEOUT", refused(a, 1, (0, 9, ACCEPT)), cause="after_lock"),
    ]


@promise
def an_answer_has_no_result_for_an_acknowledged_partition() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    asked = a.share_acknowledge(1, [(0, 9, ACCEPT)])
    asked.acknowledged.clear()
    return talk, [violation("ACK_RESULT_MISSING", asked.answered(), blame="broker")]


@promise
def an_answer_may_have_no_result_for_an_acknowledged_partition() -> Said:
    talk = Conversation()
    asked = stranger(talk).share_acknowledge(1, [(0, 9, ACCEPT)])
    asked.acknowledged.clear()
    return talk, [unknown("ACK_RESULT_MISSING", asked.answered(), because="resync")]


@promise
def another_broker_leads_the_partition() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    return talk, [note("ACK_WRONG_LEADER", refused(a, 1, (0, 9, ACCEPT), error=6), cause="not_leader")]


@promise
def an_answer_says_itself_that_another_broker_leads_the_partition() -> Said:
    talk = Conversation()
    asked = refused(stranger(talk), 5, (0, 9, ACCEPT), error=6)
    return talk, [unknown("ACK_WRONG_LEADER", asked, because="resync", cause="not_leader")]


def not_stored(error: int, cause: str) -> Said:
    """Refuse acknowledgements because the share coordinator refused their Write."""
    talk = Conversation()
    a = holding(talk, (0, 9))
    return talk, [note("ACK_NOT_STORED", refused(a, 1, (0, 9, ACCEPT), error=error), cause=cause)]


@promise
def the_share_coordinator_fences_a_leader_with_old_state() -> Said:
    return not_stored(124, "state_fenced")


@promise
def the_share_coordinator_is_not_available() -> Said:
    return not_stored(15, "not_available")


@promise
def the_group_was_deleted_before_its_acknowledgements_were_stored() -> Said:
    return not_stored(69, "no_such_group")


@promise
def an_answer_says_itself_that_acknowledgements_were_not_stored() -> Said:
    talk = Conversation()
    asked = refused(stranger(talk), 5, (0, 9, ACCEPT), error=124)
    return talk, [unknown("ACK_NOT_STORED", asked, because="resync", cause="state_fenced")]


@promise
def a_leader_stores_an_expired_lock_before_its_time_is_certain() -> Said:
    """The answer with the records was slow. Packet 901 of a capture of Kafka 4.4.0 is such a Write."""
    talk = Conversation()
    a = talk.member("a")
    fetch = a.share_fetch(0, [0])
    broker = leader(talk)
    talk.pause(3)
    fetch.answered(responses=handed((0, 0, 9)), acquisition_lock_timeout_ms=2000)
    a.share_fetch(1).answered(responses=handed((0, 10, 19)), acquisition_lock_timeout_ms=2000)
    talk.pause(0.2)
    broker.write(0, (0, 9, AVAILABLE, 1)).accepted()
    asked = refused(a, 2, (0, 19, ACCEPT))
    return talk, [note("ACK_AFTER_LOCK_TIMEOUT", asked, cause="after_lock")]


@promise
def an_expired_lock_cannot_be_renewed() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9), lock_ms=2000)
    talk.pause(3)
    asked = a.share_acknowledge(1, [(0, 9, RENEW)], version=2, renew=True).answered(acks={0: INVALID_RECORD_STATE})
    return talk, [note("RENEW_REFUSED", asked, cause="after_lock")]


@promise
def a_group_may_forbid_renewals() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    asked = a.share_acknowledge(1, [(0, 9, RENEW)], version=2, renew=True).answered(acks={0: INVALID_RECORD_STATE})
    return talk, [note("RENEW_REFUSED", asked, cause="renew_disabled")]


@promise
def locks_of_records_that_were_never_acquired_cannot_be_renewed() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    asked = a.share_acknowledge(1, [(500, 509, RENEW)], version=2, renew=True).answered(acks={0: INVALID_REQUEST})
    return talk, [violation("RENEW_REFUSED", asked, blame="client", cause="beyond_end")]

"""What time alone proves in a running capture, and what it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kshark import limits
from kshark.analysis import RULES
from kshark.analysis.facts.bases import Duration
from kshark.api_keys import PRODUCE
from kshark.incidents import EXCUSABLE, ROWS
from kshark.incidents.sentences import so_far
from kshark.model import Finding
from kshark.snapshot import load, save
from kshark_dissectors.enums import ErrorCode
from tests.analysis.coordinators import leader
from tests.analysis.talks import opened
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Asked, Conversation, Thinned
from tests.incidents import (
    test_brokers,
    test_closings,
    test_dead_letters,
    test_endpoints,
    test_fencing,
    test_fetch_sessions,
    test_members,
    test_missing_topics,
    test_network,
    test_producers,
    test_rebalances,
    test_refused_records,
    test_requests,
    test_retries,
    test_rights,
    test_sasl,
    test_session_table,
    test_throttling,
    test_tls,
    test_topics,
    test_transactions,
)
from tests.ticks import EVERY_NS, Running, without_explanation

#: Time between ticks, in seconds.
EVERY = EVERY_NS / 1e9


def judged(talk: Conversation | Thinned) -> list[Finding]:
    """What `kshark check` finds in the file."""
    running = Running(talk)
    running.close()
    return [*running.run.findings]


def goes_on(talk: Conversation, time_ns: int) -> Conversation:
    """The conversation, and a packet at that time which only shows, by its TCP timestamp, that so much time passed."""
    talk.wire.time_ns = time_ns
    talk.connection(introduced=False)
    del talk.wire.packets[-2:]
    return talk


# -- incidents that are over when nothing more of them comes


def throttled() -> Conversation:
    talk = Conversation()
    test_throttling.heartbeat(talk.connection(), 2000)
    return talk


def table_full() -> Conversation:
    talk = Conversation()
    for name in ("c1", "c2"):
        test_session_table.refuse(test_session_table.client(talk, name))
    return talk


def topic_deleted() -> Conversation:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    test_topics.done(test_topics.delete(test_topics.admin(talk)))
    a.share_fetch(1).answered(responses=test_topics.GONE)
    return talk


def retried() -> Conversation:
    talk = test_retries.alone_for()
    test_retries.retry(talk, test_retries.client(talk), ErrorCode.NOT_LEADER_OR_FOLLOWER, 6)
    return talk


def closed_on() -> Conversation:
    talk = Conversation()
    test_closings.answered(talk)
    for _ in range(4):
        test_closings.closed(talk)
    return talk


def login_expired() -> Conversation:
    talk = Conversation()
    test_sasl.forgets(talk)
    return talk


def unauthorized() -> Conversation:
    """The last refusal is a moment ago."""
    talk = Conversation()
    test_rights.heartbeat(test_rights.client(talk), "billing", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return talk


def handshake_failed() -> Conversation:
    talk = Conversation()
    test_tls.fails(talk, 0, trusts=False)
    return talk


def wrong_fetch_epoch() -> Conversation:
    talk = Conversation()
    test_fetch_sessions.refused(test_fetch_sessions.fetch(test_fetch_sessions.opened(talk), 7, 3))
    return talk


def unknown_fetch_session() -> Conversation:
    talk = Conversation()
    test_fetch_sessions.gone(test_fetch_sessions.fetch(test_fetch_sessions.opened(talk), 7, 1))
    return talk


def no_progress() -> Conversation:
    talk = Conversation()
    a = test_fetch_sessions.opened(talk)
    for epoch in range(1, 11):
        test_fetch_sessions.fetched(test_fetch_sessions.fetch(a, 7, epoch), 5)
    return talk


def producer_fenced() -> Conversation:
    talk = Conversation()
    test_fencing.end(test_retries.client(talk), 0, 90)
    return talk


def out_of_order() -> Conversation:
    talk = Conversation()
    test_producers.write(test_retries.client(talk), 3, 3, error=45)
    return talk


def duplicate() -> Conversation:
    talk = Conversation()
    a = test_retries.client(talk)
    test_producers.write(a, 0, 3)
    test_producers.write(a, 0, 3, 1)
    return talk


def few_replicas() -> Conversation:
    talk = Conversation()
    test_retries.refuse(test_retries.produce(test_retries.client(talk)), 19)
    return talk


def too_large() -> Conversation:
    talk = Conversation()
    test_retries.refuse(test_retries.produce(test_retries.client(talk)), 10)
    return talk


def missing_topic() -> Conversation:
    talk = Conversation()
    test_missing_topics.asks(talk, test_retries.client(talk), "x", 6)
    return talk


def wrong_acks() -> Conversation:
    talk = Conversation()
    test_retries.refuse(test_retries.produce(test_retries.client(talk), acks=2), 21)
    return talk


def out_of_range() -> Conversation:
    talk = Conversation()
    test_refused_records.out_of_range(test_refused_records.fetch(test_retries.client(talk), 5))
    return talk


#: By code, a conversation, and the seconds after its last packet at which the incident is over.
def rebalance_storm() -> Conversation:
    talk = Conversation()
    test_rebalances.storm(talk)
    return talk


def other_protocol() -> Conversation:
    talk = Conversation()
    test_rebalances.refused_protocol(talk)
    return talk


OVER: dict[str, tuple[Callable[[], Conversation], float]] = {
    "THROTTLED": (throttled, 2 + 30),
    "SESSION_TABLE_FULL": (table_full, 30),
    "TOPIC_DELETED_IN_USE": (topic_deleted, 60),
    "RETRY_WITHOUT_REMEDY": (retried, 60),
    "CLOSED_INSTEAD_OF_ANSWER": (closed_on, 300),
    "SASL_SESSION_EXPIRED": (login_expired, 3 * 60 + 300),
    "TLS_HANDSHAKE_FAILED": (handshake_failed, 300),
    "NOT_AUTHORIZED": (unauthorized, 300),
    "FETCH_SESSION_EPOCH": (wrong_fetch_epoch, 60),
    "FETCH_SESSION_NOT_FOUND": (unknown_fetch_session, 60),
    "SEQUENCE_OUT_OF_ORDER": (out_of_order, 60),
    "DUPLICATE_BATCH": (duplicate, 60),
    "PRODUCER_FENCED": (producer_fenced, 60),
    "FETCH_NO_PROGRESS": (no_progress, 60),
    "NOT_ENOUGH_REPLICAS": (few_replicas, 60),
    "MESSAGE_TOO_LARGE": (too_large, 60),
    "TOPIC_MISSING": (missing_topic, 60),
    "ACKS_INVALID": (wrong_acks, 60),
    "OFFSET_OUT_OF_RANGE": (out_of_range, 60),
    "REBALANCE_STORM": (rebalance_storm, 300 - 22),
    "GROUP_PROTOCOL_CONFLICT": (other_protocol, 60),
}


@pytest.mark.parametrize("code", OVER)
def test_an_incident_that_is_over_appears_with_the_next_tick(code: str) -> None:
    make, seconds = OVER[code]
    running = Running(make())
    ((at, found),) = [it for it in running.passes(seconds + 1) if it[1].code == code]
    assert seconds - 0.1 <= at <= seconds + EVERY
    assert code not in [finding.code for finding in running.close()]
    file = goes_on(make(), running.now_ns)
    assert [found] == [finding for finding in judged(file) if finding.code == code]


# -- incidents that last


def silent() -> Conversation:
    talk = Conversation()
    test_requests.Group(talk).asks(4)
    return talk


def down() -> Conversation:
    talk, connections = test_brokers.start()
    test_brokers.ends(connections)
    test_brokers.refuse(talk, test_brokers.HOSTS[0])
    return talk


def overdue() -> Conversation:
    talk = Conversation()
    talk.member("a").share_fetch(0, [0])
    return talk


def stopped() -> Conversation:
    talk = test_members.Talk()
    talk.beats(12)
    return talk.talk


def outage() -> Conversation:
    talk, members = test_network.start()
    test_network.again(talk, [member.heartbeat(1).sent for member in members])
    return talk


def not_reading() -> Conversation:
    talk, (member, *_) = test_network.start()
    member.share_fetch(1)
    for seconds in (0.01, 2, 4, 8):
        test_network.probe(talk, member.connection, seconds)
    return talk


def idle_lost() -> Conversation:
    talk, member, _ = test_network.idle()
    test_network.again(talk, [member.heartbeat(1).sent], (1.5, 1.5))
    return talk


def unreachable() -> Conversation:
    talk = Conversation()
    test_endpoints.metadata(talk.connection())
    test_endpoints.silent(talk, 40_000)
    return talk


def dead_letters() -> Conversation:
    talk = Conversation()
    admin = talk.connection()
    test_dead_letters.queue_of(admin)
    test_dead_letters.metadata(admin, error=3)
    test_dead_letters.reject(talk)
    return talk


def waiting() -> Conversation:
    """A client that waits as a quota asks."""
    talk = Conversation()
    test_throttling.heartbeat(talk.connection(), 60_000)
    return talk


def hanging() -> Conversation:
    return test_transactions.hangs()[0]


def rebalance() -> Conversation:
    talk = Conversation()
    test_rebalances.dead_until_the_end(talk)
    return talk


#: By code, a conversation, and the seconds after its last packet from which on the incident is listed.
LASTS: dict[str, tuple[Callable[[], Conversation], float]] = {
    "BROKER_SILENT": (silent, 0),
    "BROKER_DOWN": (down, 0),
    "REQUEST_OVERDUE": (overdue, 0.5 + 10),
    "MEMBER_STOPPED_FETCHING": (stopped, 0),
    "NETWORK_OUTAGE": (outage, 0),
    "CLIENT_NOT_READING": (not_reading, 0),
    "IDLE_CONNECTION_LOST": (idle_lost, 0),
    "ENDPOINT_UNREACHABLE": (unreachable, 0),
    "THROTTLED": (waiting, 0),
    "SESSION_TABLE_FULL": (table_full, 0),
    "NOT_AUTHORIZED": (unauthorized, 0),
    "TXN_HANGING": (hanging, 0),
    "REBALANCE": (rebalance, 15),
    "REBALANCE_STORM": (rebalance_storm, 0),
}


#: Only the end of the capture says that something did not come.
AT_THE_END = {"DEAD_LETTER_LOST"}
#: Only with `--records`, which a running capture does not have (test_keys).
WITH_RECORDS = {"KEY_ON_TWO_PARTITIONS"}


def lasting(running: Running, code: str) -> list[Finding]:
    return without_explanation(finding for finding in running.run.lasting() if finding.code == code)


def content(finding: Finding) -> tuple[object, ...]:
    """What an incident says. Only its clock is not that of the file: ticks show that time passes, packets may not."""
    return (
        finding.packet,
        finding.until_packet,
        finding.flow,
        finding.broker,
        finding.client,
        finding.witness,
        so_far(finding.argument),
    )


@pytest.mark.parametrize("code", LASTS)
def test_an_incident_that_lasts_is_listed_as_the_end_of_the_capture_would_give_it(code: str) -> None:
    make, seconds = LASTS[code]
    running = Running(make())
    if seconds:
        assert lasting(running, code) == []
        running.passes(seconds - EVERY)
        assert lasting(running, code) == []
    assert not [found for _, found in running.passes(2 * EVERY) if found.code == code]  # it is no finding
    listed = lasting(running, code)
    assert len(listed) == 1
    file = goes_on(make(), running.now_ns)
    expected = [finding for finding in judged(file) if finding.code == code]
    assert [*map(content, listed)] == [*map(content, expected)]
    assert listed[0].verdict == "note"
    assert "capture ends" not in listed[0].argument
    assert "end of the capture" not in listed[0].argument


@pytest.mark.parametrize("code", LASTS)
def test_to_list_what_lasts_changes_nothing(code: str) -> None:
    make, _ = LASTS[code]
    running, plain = Running(make()), Running(make())
    for it in (running, plain):
        it.passes(3)
    running.run.lasting()
    assert running.close() == plain.close()


def test_some_of_many_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Conversation()
    for host in range(1, 6):
        talk.member("a", connection=talk.connection(host=f"10.0.0.{host}")).share_fetch(0, [0])
    running = Running(talk)
    running.passes(20)
    assert len(lasting(running, "REQUEST_OVERDUE")) == 5
    monkeypatch.setattr(limits, "LASTING", 2)
    assert len(running.run.lasting()) == 2


def test_it_is_listed_no_more_when_it_is_over() -> None:
    talk = overdue()
    running, before = Running(talk), len(talk.wire.packets)
    running.passes(20)
    assert [finding.code for finding in running.run.lasting()] == ["REQUEST_OVERDUE"]
    talk.pause(20)
    talk.exchanges[-1].answered()
    (found,) = [it for it in running.goes_on(talk, before) if it.code == "REQUEST_OVERDUE"]
    assert "was answered after 20.0 s" in found.argument
    assert running.run.lasting() == []


def test_a_silence_of_all_is_no_silence_of_a_broker() -> None:
    """The capture, or its host, may have stood still."""
    talk = Conversation()
    group = test_requests.Group(talk)
    for number in range(3):
        group.fetch(number)
    running = Running(talk)
    for _ in range(5):
        running.passes(1)
        assert lasting(running, "BROKER_SILENT") == []


# -- findings that an incident may excuse


def answers(talk: Conversation) -> None:
    """The broker lives."""
    talk.pause(0.1)
    talk.member("z", group="z", connection=talk.connection(host="10.0.0.7")).heartbeat(1).given(1)


def late_heartbeat() -> Conversation:
    talk = Conversation()
    a = talk.member("a")
    a.heartbeat(1).given(1)
    for _ in range(30):
        talk.pause(1)
        talk.member("b", connection=a.connection, joined=False).share_fetch(0).answered()
    a.heartbeat(1).given(1)
    return talk


def no_recovery() -> Conversation:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(4).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk


def not_closed() -> Conversation:
    talk = Conversation()
    opened(talk, 1).connection.close()
    return talk


def state_lost() -> Conversation:
    talk = Conversation()
    a = leader(talk)
    a.write(100, (100, 109, 2, 1)).accepted()
    a.read().given(100)
    return talk


#: By code, a conversation with such a finding.
EXCUSED: dict[str, Callable[[], Conversation]] = {
    "HEARTBEAT_LATE": late_heartbeat,
    "NO_RECOVERY": no_recovery,
    "SESSION_NOT_CLOSED": not_closed,
    "STATE_LOST": state_lost,
}


@pytest.mark.parametrize("code", EXCUSED)
def test_a_finding_that_nothing_excuses_appears_ten_seconds_later(code: str) -> None:
    talk = EXCUSED[code]()
    answers(talk)
    running = Running(talk)
    assert code not in [finding.code for finding in running.findings]
    proved = [it for it in running.passes(11) if it[1].code == code]
    assert proved
    assert all(9 < at < 10 + EVERY for at, _ in proved)
    assert [found for _, found in proved] == [finding for finding in judged(talk) if finding.code == code]
    assert code not in [finding.code for finding in running.close()]


@pytest.mark.parametrize("code", ["HEARTBEAT_LATE", "SESSION_NOT_CLOSED"])
def test_it_waits_while_the_broker_says_nothing(code: str) -> None:
    """The broker may be silent since its last answer."""
    running = Running(EXCUSED[code]())
    assert code not in [found.code for _, found in running.passes(90)]
    assert code in [finding.code for finding in running.close()]


def test_it_waits_for_the_end_of_a_deletion() -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(100, (100, 109, 2, 1)).accepted()
    test_topics.done(test_topics.delete(test_topics.admin(talk)))
    a.read(1).given(-1)
    answers(talk)
    running = Running(talk)
    proved = [(at, it.code, it.verdict, it.unknown_because) for at, it in running.passes(75)]
    (deleted,) = [it for it in proved if it[1] == "TOPIC_DELETED_IN_USE"]
    (lost,) = [it for it in proved if it[1] == "STATE_LOST"]
    assert 59 < deleted[0] < 61
    assert deleted[0] < lost[0] < 72
    assert lost[2:] == ("note", "event")


def test_it_waits_for_the_end_of_an_outage() -> None:
    talk, members = test_network.start()
    talk.pause(20)
    asked = [member.heartbeat(1) for member in members]
    test_network.again(talk, [request.sent for request in asked], (0.2, 0.5))
    late = asked[0].given(1)
    running, before = Running(talk), len(talk.wire.packets)
    assert not [it for _, it in running.passes(60) if it.code == "HEARTBEAT_LATE"]
    assert late.packet == before


# -- what is held for other connections


def behind_a_hole(*, acknowledged: bool) -> tuple[Thinned, Asked]:
    """A violation while another connection waits for a packet that the capture lacks, and a packet a second later."""
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b", connection=talk.connection(host="10.0.0.2"))
    b.share_fetch(0, [0]).answered()
    lost = a.heartbeat(1).given(1)
    after = a.heartbeat(1)
    if acknowledged:
        after.given(1)
    wrong = b.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    goes_on(talk, talk.wire.time_ns + 1_000_000_000)
    return talk.without_packets(lost.answer_packets if acknowledged else lost.packets), wrong


@pytest.mark.parametrize("acknowledged", [True, False])
def test_a_finding_that_is_held_for_another_connection_appears_at_once(acknowledged: bool) -> None:
    talk, wrong = behind_a_hole(acknowledged=acknowledged)
    running = Running(Thinned(talk.rows[:-1]))
    assert "EPOCH_SKIP_AHEAD" not in [finding.code for finding in running.findings]
    ((at, found),) = [it for it in running.passes(1) if it[1].code == "EPOCH_SKIP_AHEAD"]
    assert (at, found.packet, found.verdict) == (EVERY, wrong.packet, "violation")
    running.goes_on(talk, len(talk.rows) - 1)
    running.close()
    assert [*running.run.findings] == judged(talk)


# -- clocks


def test_the_clock_is_stepped_while_nothing_comes() -> None:
    """Ticks far from those before prove nothing, and those before the last packet neither."""
    running = Running(overdue())
    second = 1_000_000_000
    begin_ns = running.now_ns
    for step in (3600 * second, -3600 * second, second, 5 * second):
        assert running.tick(begin_ns + step) == []
        assert lasting(running, "REQUEST_OVERDUE") == []
    assert running.tick(begin_ns) == []
    running.now_ns = begin_ns + 3600 * second
    running.tick(running.now_ns)
    running.passes(9)  # an hour later, by a clock that goes on
    assert lasting(running, "REQUEST_OVERDUE") == []
    running.passes(2)
    assert len(lasting(running, "REQUEST_OVERDUE")) == 1


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_step_accuses_nobody_later(step: float) -> None:
    """Packets after a step of the clock, with ticks before and after it: as `check` finds it in the file."""
    talk = no_recovery()
    answers(talk)
    before = len(talk.wire.packets)
    running = Running(talk)
    running.passes(2)
    talk.pause(2.1 + step)
    running.now_ns = talk.wire.time_ns
    running.passes(2)
    talk.pause(2.1)
    a = talk.member("c", connection=talk.connection(host="10.0.0.5"))
    a.share_fetch(0, [0]).answered()
    running.goes_on(talk, before)
    running.close()
    assert [*running.run.findings] == judged(talk)


def doubted(packets: int) -> Conversation:
    """An outage of 20 s in which no host shows that so much time passed, and packets after it."""
    talk, members = test_network.start()
    talk.wire.stamped = False
    asked = [member.heartbeat(1) for member in members]
    talk.pause(20)
    test_network.again(talk, [request.sent for request in asked], (0.0,))
    for request in asked:
        request.given(1)
    while len(talk.wire.packets) < packets:
        test_network.beat(members[0])
    return talk


def test_an_incident_whose_time_is_doubtful_appears_when_no_packet_can_prove_it() -> None:
    talk = doubted(400)
    running, before = Running(talk), len(talk.wire.packets)
    assert "NETWORK_OUTAGE" not in [found.code for _, found in running.passes(5)]
    talk = doubted(800)
    talk.wire.packets[before:] = [packet.at(packet.time_ns + 6_000_000_000) for packet in talk.wire.packets[before:]]
    assert "NETWORK_OUTAGE" not in [found.code for found in running.goes_on(talk, before)]
    running.now_ns = talk.wire.packets[-1].time_ns
    (found,) = [found for _, found in running.passes(EVERY) if found.code == "NETWORK_OUTAGE"]
    assert (found.verdict, found.unknown_because) == ("unknown", "clock")
    assert [found] == [finding for finding in judged(talk) if finding.code == "NETWORK_OUTAGE"]


def test_a_state_is_saved_between_two_ticks() -> None:
    make, seconds = OVER["THROTTLED"]
    talk = make()
    running = Running(talk)
    running.passes(seconds - 5)
    now_ns = running.now_ns
    running._engine, running.run = load(save(running._engine, running.run))
    running.now_ns = now_ns
    assert [found.code for _, found in running.passes(6)] == ["THROTTLED"]


# -- the catalogue


#: Rules about pace or silence that time alone never proves: their last witness is a request or an answer, which is part
#: of the finding (its packet, its sentence). The finding appears with that packet.
WITH_A_PACKET = {
    "ACK_AFTER_LOCK_TIMEOUT": "the acknowledgement after the lock",
    "ACK_ATOMICITY_BROKEN": "the delivery after the refusal",
    "ACK_NOT_PERSISTED": "the answer to the acknowledgement",
    "ASSIGNED_NEVER_FETCHED": "a later heartbeat",
    "EARLY_REDELIVERY": "the delivery before the lock expires",
    "CONSUMER_EPOCH_FENCED": "the refused heartbeat",
    "EPOCH_REPLAY": "the repeated request",
    "FETCH_BY_DEPARTED_MEMBER": "the fetch",
    "FETCH_UNASSIGNED_PARTITION": "the fetch",
    "GENERATION_STALE": "the refused request",
    "LEADER_HINT_IGNORED": "the fetch after the hint",
    "LOCK_TIMEOUT_REDELIVERY": "the delivery after the lock",
    "NEVER_ACKED": "the delivery after the lock",
    "OVERLAPPING_ACQUISITION": "the second acquisition",
    "PERSISTED_STATE_MISMATCH": "the answer to the acknowledgement",
    "PERSIST_SLOW": "the late write",
    "REOPEN_HOT_LOOP": "the last opening",
    "REQUEST_TIMEOUT_CLOSE": "the end of the connection",
    "SESSION_FLAPPING": "the last opening",
    "UNRELEASED_ON_FORGET": "the delivery to another member",
}


def about_time() -> Iterator[str]:
    for rule in RULES:
        if any(isinstance(basis, Duration) for basis in rule.rests_on):
            yield rule.code
    yield from (row.code for row in ROWS)


def test_each_rule_about_pace_or_silence_says_whether_time_alone_proves_it() -> None:
    by_time = {*OVER, *LASTS, *EXCUSED, *AT_THE_END, *WITH_RECORDS}
    assert by_time.isdisjoint(WITH_A_PACKET)
    assert {*about_time()} - {*EXCUSED} == (by_time | {*WITH_A_PACKET}) - {*EXCUSED}
    assert {*EXCUSED} == EXCUSABLE
    assert {row.code for row in ROWS} <= {*OVER, *LASTS, *AT_THE_END, *WITH_RECORDS}


def test_a_dead_letter_that_may_still_come_is_not_called_lost() -> None:
    running = Running(dead_letters())
    running.passes(2 * EVERY)
    assert lasting(running, "DEAD_LETTER_LOST") == []
    assert "DEAD_LETTER_LOST" in {finding.code for finding in judged(dead_letters())}


def test_the_others_need_a_packet() -> None:
    """A lock that expires, a share session that goes on: nothing is found until the next request or answer."""
    talk = Conversation()
    a = talk.member("a")
    acquired = [{"first_offset": 0, "last_offset": 9, "delivery_count": 1}]
    row = {"partition_index": 0, "error_code": 0, "acquired_records": acquired, "records": b""}
    topic = {"topic_id": test_topics.TOPIC, "partitions": [row]}
    a.share_fetch(0, [0]).answered(responses=[topic], acquisition_lock_timeout_ms=15_000)
    running, before = Running(talk), len(talk.wire.packets)
    assert running.passes(30) == []
    talk.pause(30)
    a.share_acknowledge(1, [(0, 9, 1)]).answered(acks={0: ErrorCode.INVALID_RECORD_STATE})
    assert "ACK_AFTER_LOCK_TIMEOUT" in [finding.code for finding in running.goes_on(talk, before)]
    assert PRODUCE == 0

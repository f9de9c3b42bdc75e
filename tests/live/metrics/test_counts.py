"""What is counted of real captures and of conversations: the same as `kshark check` and `kshark stats` say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import pytest

from kshark.analysis.results.breakdown import Breakdown
from kshark.analysis.results.statistics import Statistics
from kshark.capture import open_captures
from kshark.error_names import ERROR_NAMES
from kshark.live.metrics.counts import QUIET_NS
from kshark.live.metrics.members import GONE_NS
from kshark.metrics import ShareCounting, listed
from kshark.model import Event, Exchange, Tick
from kshark.names import TopicNames
from kshark.pipeline import JUDGED, Engine
from kshark.run import Run
from tests.analysis.coordinators import leader
from tests.analysis.talks import batch_of, handed, left, unchanged
from tests.conversation import BROKER, INVALID_SHARE_SESSION_EPOCH, TOPIC, Connection, Conversation, registry
from tests.live.metrics.scraped import Watched, total
from tests.shared import CAPTURES, shared

NAMES = ["share-java-explicit", "share-loss", "adv-epochs", "share-restart", "aimed-4.1.2", "seed-messy"]


@cache
def pages_of(name: str) -> list[list[Event]]:
    return [*Engine(JUDGED, registry()).pages(open_captures([CAPTURES / f"{name}.pcap"]))]


@cache
def watched(name: str) -> Watched:
    return Watched().file(CAPTURES / f"{name}.pcap").end()


@pytest.mark.parametrize("name", NAMES)
def test_findings_are_those_of_check(name: str) -> None:
    run = Run(registry())
    findings = [finding for page in pages_of(name) for finding in run.page(page)]
    findings += run.close()
    expected = Counter((f.code, f.verdict, f.blame, f.group_id or "") for f in findings)
    found = {
        tuple(value for _, value in labels): int(value)
        for (sample, labels), value in watched(name).scrape().items()
        if sample == "kshark_findings_total"
    }
    assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_those_of_stats_by_api_group_and_error(name: str) -> None:
    breakdown = Breakdown(registry(), ("api", "group", "error"))
    for page in pages_of(name):
        breakdown.page(page)
    expected = {
        (row["api"], ERROR_NAMES[row["error_code"]], row["group_id"] or ""): row["requests"]
        for row in breakdown.rows()
        if row["error_code"]
    }
    found = {
        tuple(value for _, value in labels): int(value)
        for (sample, labels), value in watched(name).scrape().items()
        if sample == "kshark_error_responses_total"
    }
    assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_requests_and_their_work_are_those_of_stats(name: str) -> None:
    statistics = Statistics(registry())
    for page in pages_of(name):
        for event in page:
            statistics.feed(event)
    found = watched(name).scrape()
    requests, answers, work = Counter[str](), Counter[str](), Counter[str]()
    for (key, _), counts in statistics._apis.items():
        api = registry().name(key) or str(key)
        requests[api] += counts.requests
        answers[api] += counts.responses
        work[api] += counts.latency.work.count
    for api, count in requests.items():
        assert total(found, "kshark_requests_total", api=api) == count
        assert total(found, "kshark_requests_total", api=api, result="answered") == answers[api]
        assert total(found, "kshark_request_work_seconds_count", api=api) == work[api]
        assert total(found, "kshark_request_work_seconds_bucket", api=api, le="+Inf") == work[api]


@pytest.mark.parametrize("name", NAMES)
def test_share_groups_are_those_of_stats_share(name: str) -> None:
    names = TopicNames(registry())
    counting = ShareCounting(names)
    for page in pages_of(name):
        counting.page(page)
    found = watched(name).scrape()
    for group in listed(counting.close(), names.by_id).groups:
        of = {"group": group.group_id or ""}
        for outcome, count in _outcomes(group.members).items():
            assert total(found, "kshark_share_fetches_total", **of, outcome=outcome) == count
        for kind in ("accept", "release", "reject", "renew"):
            row = f"record-acknowledgement-count{{ack-type={kind}}}"
            assert total(found, "kshark_share_records_acknowledged_total", **of, type=kind) == group.metrics[row]
        for partition in group.partitions:
            here = {**of, "topic": partition.topic or partition.topic_id, "partition": str(partition.partition)}
            for sample, row in (
                ("kshark_share_records_acquired_total", "records-acquired"),
                ("kshark_share_records_redelivered_total", "records-redelivered"),
                ("kshark_share_records_lock_expired_total", "lock-timeouts"),
                ("kshark_share_records_rejected_total", "record-acknowledgement-count{ack-type=reject}"),
                ("kshark_share_in_flight_records", "InFlightMessageCount"),
                ("kshark_share_start_offset", ""),
            ):
                value = partition.metrics[row] if row else partition.start_offset
                if value is not None:
                    assert total(found, sample, **here) == value, (sample, here)


def _outcomes(members: Any) -> Counter[str]:
    together = Counter[str]()
    for member in members:
        together.update(member.fetches)
    return together


def test_packets_and_bytes_are_those_of_the_file() -> None:
    path = CAPTURES / "adv-epochs.pcap"
    found = watched("adv-epochs").scrape()
    batches = [item for item in open_captures([path]) if hasattr(item, "wire_length")]
    assert total(found, "kshark_packets_total") == sum(len(item.number) for item in batches)
    assert total(found, "kshark_bytes_total") == sum(int(item.wire_length.sum()) for item in batches)


def test_the_status_of_the_capture() -> None:
    watch = Watched()
    watch.status.interfaces, watch.status.down = ("eth0", "eth1"), ("eth1",)
    watch.status.dropped, watch.status.delay_ns, watch.status.waiting = 137, 2_500_000_000, 4096
    found = watch.scrape()
    assert total(found, "kshark_interface_up", interface="eth0") == 1
    assert total(found, "kshark_interface_up", interface="eth1") == 0
    assert total(found, "kshark_packets_dropped_total") == 137
    assert total(found, "kshark_delay_seconds") == 2.5
    assert total(found, "kshark_waiting_bytes") == 4096


# -- lag


def appended(connection: Connection, first: int, last: int) -> None:
    """A producer's records get these offsets."""
    data = [{"topic_id": TOPIC, "partition_data": [{"index": 0, "records": batch_of(0, last - first)}]}]
    asked = connection.ask(0, "Produce", 13, {"acks": -1, "timeout_ms": 30_000, "topic_data": data})
    results = [{"index": 0, "base_offset": first}]
    asked.answered(None, responses=[{"topic_id": TOPIC, "partition_responses": results}])


def test_lag_is_what_was_produced_and_not_finished() -> None:
    talk = Conversation()
    leader(talk)
    a, producer = talk.member("a"), talk.connection()
    appended(producer, 0, 9)
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    appended(producer, 10, 29)
    watch = Watched().talk(talk)
    assert lag(watch) == 30
    a.share_acknowledge(1, [(0, 4, 1)]).answered()  # ends five, from the start on
    assert lag(watch.talk(talk)) == 25
    a.share_acknowledge(2, [(7, 8, 1)]).answered()  # ends two in the middle: the start offset waits
    assert lag(watch.talk(talk)) == 23
    assert total(watch.scrape(), "kshark_share_start_offset", group="g") == 5
    assert total(watch.scrape(), "kshark_share_in_flight_records", group="g") == 5


def lag(watch: Watched) -> float:
    return total(watch.scrape(), "kshark_share_lag_records", group="g")


def test_there_is_no_lag_where_nobody_shows_the_end_of_the_partition() -> None:
    talk = Conversation()
    leader(talk)
    talk.member("a").share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    found = Watched().talk(talk).scrape()
    assert not [sample for sample, _ in found if sample == "kshark_share_lag_records"]
    assert total(found, "kshark_share_in_flight_records", group="g") == 10


@pytest.mark.parametrize(
    ("name", "rows"),
    [("share-java-explicit", 8), ("seed-messy", 5), ("share-java-implicit-4.2.1", 2), ("kafka-4/admin-tools", 4)],
)
def test_lag_is_what_the_brokers_say(name: str, rows: int) -> None:
    """DescribeShareGroupOffsets has it since version 1 (KIP-1226): an oracle in the capture itself."""
    path = shared("captures", f"{name}.pcap") if "/" in name else CAPTURES / f"{name}.pcap"
    watch = Watched()
    compared = 0
    for page in Engine(replace(JUDGED, records="headers"), registry()).pages(open_captures([path])):
        for event in page:
            watch.counts.page([event], watch.run.page([event]), watch.run)
            if isinstance(event, Exchange) and event.request and event.response and event.request.api_key == 90:
                compared += compare(watch, event)
    assert compared == rows


def compare(watch: Watched, described: Exchange) -> int:
    """Compare each partition's lag with that of the response; return their number."""
    assert described.response is not None
    watch.status.now_ns = described.response.time_ns
    series = watch.series()["kshark_share_lag_records"]
    compared = 0
    for group in described.response.body.groups or ():
        for topic in group.topics or ():
            for partition in topic.partitions or ():
                ours = series.get((group.group_id, topic.topic_name, str(partition.partition_index)))
                if ours is not None and getattr(partition, "lag", -1) >= 0:
                    assert ours == (partition.lag,)
                    compared += 1
    return compared


def named(talk: Conversation, topic_id: str) -> None:
    """A broker says that the topic `t` has this id."""
    topic = {"error_code": 0, "name": "t", "topic_id": topic_id, "is_internal": False, "partitions": []}
    asked = talk.connection().ask(3, "Metadata", 12, {"topics": None})
    asked.answered(None, brokers=[], cluster_id=None, controller_id=1, topics=[topic])


def test_of_a_topic_that_was_created_anew_the_new_one_counts() -> None:
    new = "AAAAAAAAAAAAAAAAAAAACA"
    talk = Conversation()
    named(talk, TOPIC)
    leader(talk)
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 99)))
    named(talk, new)
    leader(talk, topic=new)
    records = [{**handed((0, 0, 4))[0], "topic_id": new}]
    a.share_fetch(1, [0], topic=new).answered(responses=records)
    watch = Watched().talk(talk)
    assert watch.series()["kshark_share_in_flight_records"] == {("g", "t", "0"): (5,)}
    assert watch.series()["kshark_share_records_acquired"] == {("g", "t", "0"): (105,)}


# -- members, sessions, and what comes to an end


def test_members_and_sessions_come_and_go() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    a.share_fetch(0, [0]).answered()
    b.share_fetch(0, [0]).answered()
    watch = Watched().talk(talk)
    assert members(watch) == 2
    assert total(watch.scrape(), "kshark_share_sessions", group="g") == 2
    a.share_fetch(-1).answered()
    left(a)
    assert members(watch.talk(talk)) == 1
    assert total(watch.scrape(), "kshark_share_sessions", group="g") == 1
    unchanged(b)
    watch.talk(talk).status.now_ns += GONE_NS + 1
    watch.status.delay_ns = GONE_NS
    assert members(watch) == 1  # what was captured meanwhile is not judged yet
    watch.status.delay_ns = 0
    assert members(watch) == 0


def members(watch: Watched) -> float:
    return total(watch.scrape(), "kshark_group_members", group="g", type="share")


def test_a_group_that_is_quiet_for_long_disappears_and_may_come_back() -> None:
    talk = Conversation()
    leader(talk)
    leader(talk, group="other-group")
    a, other = talk.member("a"), talk.member("o", group="other-group")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    other.share_fetch(0, [0]).answered(responses=handed((0, 0, 4)))
    watch = Watched().talk(talk)
    assert total(watch.scrape(), "kshark_share_records_acquired_total", group="g") == 10
    talk.pause(QUIET_NS / 1e9)
    other.share_fetch(1).answered()
    found = watch.talk(talk).scrape()
    assert total(found, "kshark_share_in_flight_records", group="g") == 0
    assert total(found, "kshark_share_in_flight_records", group="other-group") == 5
    assert not watch.series()["kshark_share_fetches"].keys() & {("g", "records")}
    a.share_fetch(1).answered(responses=handed((0, 10, 12)))
    found = watch.talk(talk).scrape()
    assert total(found, "kshark_share_records_acquired_total", group="g") == 3


def test_connections_and_brokers_are_the_open_ones() -> None:
    talk = Conversation()
    one, two = talk.connection(), talk.connection("10.0.0.8:9092")
    watch = Watched().talk(talk)
    assert total(watch.scrape(), "kshark_connections", service="kafka") == 2
    assert total(watch.scrape(), "kshark_brokers") == 2
    one.close()
    found = watch.talk(talk).scrape()
    assert total(found, "kshark_connections", service="kafka") == 1
    assert total(found, "kshark_brokers") == 1
    two.reset()
    assert total(watch.talk(talk).scrape(), "kshark_connections") == 0


def test_what_lasts_now_is_a_gauge_and_becomes_a_finding() -> None:
    talk = Conversation()
    late = talk.member("a").share_fetch(0, [0])
    watch = Watched().talk(talk)
    overdue = {"code": "REQUEST_OVERDUE", "broker": BROKER}
    assert total(watch.scrape(), "kshark_incidents") == 0
    begin_ns = talk.wire.time_ns
    watch.take(Tick(begin_ns + quarter * 250_000_000) for quarter in range(80))
    assert total(watch.scrape(), "kshark_incidents", **overdue) == 1
    assert total(watch.scrape(), "kshark_findings_total", code="REQUEST_OVERDUE") == 0
    talk.pause(20)
    late.answered()
    found = watch.talk(talk).scrape()
    assert total(found, "kshark_incidents") == 0
    assert total(found, "kshark_findings_total", code="REQUEST_OVERDUE") == 1


# -- labels


def wrong_epoch(**names: str) -> Conversation:
    talk = Conversation()
    a = talk.member(names.get("member", "a"), group=names.get("group", "g"))
    a.connection.client_id = names.get("client", "c1")
    a.share_fetch(0, [0]).answered()
    a.share_fetch(5).answered(INVALID_SHARE_SESSION_EPOCH)
    return talk


def test_clients_and_members_are_labels_only_if_asked() -> None:
    plain = Watched().talk(wrong_epoch()).text()
    assert "client=" not in plain
    assert "member=" not in plain
    asked = Watched(("client", "member")).talk(wrong_epoch()).scrape()
    whose = {"client": "c1", "member": "a".ljust(22, "A")}
    assert total(asked, "kshark_findings_total", code="EPOCH_SKIP_AHEAD", **whose) == 1
    assert total(asked, "kshark_error_responses_total", error="INVALID_SHARE_SESSION_EPOCH", **whose) == 1


def read(talk: Conversation, partitions: int) -> None:
    """The leader of so many partitions reads their state."""
    rows = [{"partition": number, "leader_epoch": 0} for number in range(partitions)]
    asked = talk.connection().ask(
        84, "ReadShareGroupState", 0, {"group_id": "g", "topics": [{"topic_id": TOPIC, "partitions": rows}]}
    )
    given = {"error_code": 0, "error_message": None, "state_epoch": 1, "start_offset": 0, "state_batches": []}
    results = [{"partition": number, **given} for number in range(partitions)]
    asked.answered(None, results=[{"topic_id": TOPIC, "partitions": results}])


def test_thousands_of_members_and_partitions_are_at_most_a_thousand_series() -> None:
    """And the counters' sums are those of all of them."""
    talk = Conversation()
    read(talk, 5_000)
    a = talk.member("a")
    a.share_fetch(0, range(5_000)).answered(responses=handed(*[(number, 0, number) for number in range(5_000)]))
    wrong = a.share_fetch(5).answered(INVALID_SHARE_SESSION_EPOCH)
    watch = Watched(("client", "member")).talk(talk)
    (finding,) = [one for one in watch.found if one.packet == wrong.packet]
    for number in range(9_999):
        watch.counts.found([msgspec.structs.replace(finding, member_id=f"m{number}", client_id=f"c{number % 100}")])
    found = watch.scrape()
    assert 900 < len(found) <= 1_000
    assert total(found, "kshark_findings_total") == len(watch.found) + 9_999
    assert total(found, "kshark_share_records_acquired_total") == sum(number + 1 for number in range(5_000))
    shown = [int(dict(pairs)["partition"]) for sample, pairs in found if sample == "kshark_share_in_flight_records"]
    assert shown == [*range(4_999, 4_999 - len(shown), -1)]  # the largest
    assert total(found, "kshark_series_left_out", family="kshark_share_in_flight_records") == 5_000 - len(shown)


def test_counters_never_go_backwards_while_a_capture_grows() -> None:
    watch = Watched()
    before = watch.scrape()
    for item in open_captures([CAPTURES / "share-java-explicit.pcap"]):
        now = watch.take([item]).scrape()
        for series, value in before.items():
            if series[0].endswith(("_total", "_bucket", "_count", "_sum")) and series in now:
                assert now[series] >= value
        before = now

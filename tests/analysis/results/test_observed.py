"""What a capture holds beside its findings: refusals that nothing explains, and what it covers."""

from __future__ import annotations

import pickle
import struct
from collections import Counter
from typing import Any

import pytest

from kshark import limits
from kshark.analysis import Observed, Observer
from kshark.analysis.results.observed import OTHERS
from kshark.analysis.results.statistics import Statistics
from kshark.api_keys import FIND_COORDINATOR
from kshark.face import pages
from kshark.model import Closed, Ends, Flow, Gap, Weird
from kshark.pipeline import Options
from kshark.run import Run
from tests.analysis.talks import INVALID_REQUEST, accepted, batch_of, codes, opened, produced, replied, sent
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, TOPIC, Asked, Conversation, Thinned, events, registry
from tests.shared import CAPTURES

CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
COORDINATOR_NOT_AVAILABLE = 15
REQUEST_TIMED_OUT = 7
TOPIC_DELETION_DISABLED = 73
INVALID_RECORD_STATE = 121
BROKER_ID_NOT_REGISTERED = 102
REBALANCE_IN_PROGRESS = 27
OPERATION_NOT_ATTEMPTED = 55
ADD_PARTITIONS_TO_TXN = 24


def observed(talk: Conversation | Thinned, options: Options | None = None) -> Observed:
    """As `kshark check` does it."""
    run = Run(registry())
    for event in events(talk, options):
        run.page([event])
    run.close()
    return run.observed


def left(talk: Conversation | Thinned) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in observed(talk).unexplained()]


def unregister(talk: Conversation, client_id: str = "c1") -> Asked:
    """A request that no rule is about."""
    connection = talk.connection()
    connection.client_id = client_id
    return connection.ask(64, "UnregisterBroker", 0, {"broker_id": 7})


def of_partitions(*errors: tuple[int, int]) -> list[dict[str, Any]]:
    """An answer's partitions, by (partition, error)."""
    return [{"topic_id": TOPIC, "partitions": [{"partition_index": one, "error_code": error} for one, error in errors]}]


def test_a_refusal_that_no_rule_is_about_is_counted_with_its_client() -> None:
    talk = Conversation()
    for client in ("c2", "c1", "c1"):
        unregister(talk, client).answered(BROKER_ID_NOT_REGISTERED)
    unregister(talk).answered()
    assert left(talk) == [("UnregisterBroker", BROKER_ID_NOT_REGISTERED, 3, ["c1", "c2"])]


def test_a_client_without_a_name_is_its_address() -> None:
    talk = Conversation()
    unregister(talk, "").answered(BROKER_ID_NOT_REGISTERED)
    assert left(talk) == [("UnregisterBroker", BROKER_ID_NOT_REGISTERED, 1, ["10.0.0.1"])]


def test_a_refusal_with_a_finding_is_explained() -> None:
    talk = Conversation()
    opened(talk, 1).share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    assert observed(talk).answered.total() == 1
    assert left(talk) == []


def test_an_unknown_cause_is_said_too() -> None:
    """Nothing is unsaid that has a finding, whatever its verdict."""
    talk = Conversation()
    opened(talk, 1).share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    assert left(talk.without_exchange(3)) == []


def test_codes_inside_an_answer_count_each() -> None:
    talk = Conversation()
    a = opened(talk)
    a.share_acknowledge(1, [(0, 1, 1)]).answered(
        responses=of_partitions((1, INVALID_RECORD_STATE), (2, INVALID_RECORD_STATE))
    )
    assert left(talk) == [("ShareAcknowledge", INVALID_RECORD_STATE, 2, ["c1"])]


def test_what_is_said_of_a_session_does_not_explain_a_partitions_error() -> None:
    """Opened anew over an open session, which is worth a note: the partition's error is another matter."""
    talk = Conversation()
    opened(talk, 1).share_fetch(0, [0]).answered(responses=of_partitions((0, TOPIC_DELETION_DISABLED)))
    assert left(talk) == [("ShareFetch", TOPIC_DELETION_DISABLED, 1, ["c1"])]


def test_what_is_said_of_a_partition_explains_its_errors_and_the_answers_own() -> None:
    """A partition is listed twice; another one has an error of its own."""
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(2, [0, 0, 1]).answered(
        responses=of_partitions((0, TOPIC_DELETION_DISABLED), (1, TOPIC_DELETION_DISABLED))
    )
    assert left(talk) == [("ShareFetch", TOPIC_DELETION_DISABLED, 1, ["c1"])]
    talk = Conversation()
    opened(talk, 1).share_fetch(2, [0, 0]).answered(-1)
    assert left(talk) == []


def test_a_rule_of_one_exchange_explains_all_of_its_answer() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(0, [0], acks=[(0, 1, 1)]).answered(INVALID_REQUEST, responses=of_partitions((0, INVALID_REQUEST)))
    assert observed(talk).answered.total() == 2
    assert left(talk) == []


def test_what_is_said_of_bytes_explains_no_error() -> None:
    """An answer that is a byte too long."""
    talk = Conversation()
    connection = talk.connection()
    sent(connection, FIND_COORDINATOR, 0, struct.pack(">h", 1) + b"g")
    replied(connection, struct.pack(">hihi", REQUEST_TIMED_OUT, -1, 0, -1) + b"\0")
    assert codes(talk) == [("TRAILING_BYTES", "violation")]
    assert left(talk) == [("FindCoordinator", REQUEST_TIMED_OUT, 1, ["c1"])]


def test_what_brokers_refuse_such_bytes_with_is_explained_by_what_is_said_of_them() -> None:
    talk = Conversation()
    connection = talk.connection()
    produced(connection, batch_of(0, 1, crc=1))
    accepted(connection, CORRUPT_MESSAGE)
    produced(connection, batch_of(0, 1, crc=1))
    accepted(connection, REQUEST_TIMED_OUT)
    produced(connection, batch_of(0, 1))
    accepted(connection, CORRUPT_MESSAGE)
    assert codes(talk) == [("BATCH_CRC", "violation")] * 2
    assert left(talk) == [("Produce", CORRUPT_MESSAGE, 1, ["c1"]), ("Produce", REQUEST_TIMED_OUT, 1, ["c1"])]


def test_what_says_itself_why_it_came_and_is_nobodys_fault_is_told_apart() -> None:
    talk = Conversation()
    connection = talk.connection()
    for code in (COORDINATOR_NOT_AVAILABLE, REQUEST_TIMED_OUT):
        connection.ask(FIND_COORDINATOR, "FindCoordinator", 0, {"key": "g"}).answered(code)
    assert left(talk) == [("FindCoordinator", REQUEST_TIMED_OUT, 1, ["c1"])]
    row = {
        "api": "FindCoordinator",
        "error_code": COORDINATOR_NOT_AVAILABLE,
        "count": 1,
        "clients": ["c1"],
        "cause": "not_available",
    }
    assert observed(talk).ordinary() == [row]


def test_a_rebalance_is_nobodys_fault() -> None:
    """The broker's answer to a heartbeat is how a member of a classic group learns of it."""
    talk = Conversation()
    asked = talk.connection().ask(12, "Heartbeat", 3, {"group_id": "g", "generation_id": 1, "member_id": "m"})
    asked.answered(REBALANCE_IN_PROGRESS)
    assert left(talk) == []
    assert [(row["api"], row["cause"]) for row in observed(talk).ordinary()] == [("Heartbeat", "rebalancing")]


def test_who_is_not_tried_because_others_were_refused_is_not_refused_himself() -> None:
    talk = Conversation()
    body = {"v3_and_below_transactional_id": "t", "v3_and_below_producer_id": 1, "v3_and_below_producer_epoch": 0}
    asked = talk.connection().ask(ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 3, body)
    errors = [
        {"partition_index": 0, "partition_error_code": UNKNOWN_TOPIC_OR_PARTITION},
        {"partition_index": 1, "partition_error_code": OPERATION_NOT_ATTEMPTED},
    ]
    asked.answered(None, results_by_topic_v3_and_below=[{"name": "t", "results_by_partition": errors}])
    assert [code for _, code, *_ in left(talk)] == [UNKNOWN_TOPIC_OR_PARTITION]
    assert [(row["error_code"], row["cause"]) for row in observed(talk).ordinary()] == [
        (OPERATION_NOT_ATTEMPTED, "others_refused")
    ]


def test_what_a_finding_explains_is_not_explained_twice() -> None:
    talk = Conversation()
    talk.member("a").heartbeat(1).answered(COORDINATOR_NOT_AVAILABLE)
    assert codes(talk) == [("COORDINATOR_NOT_READY", "note")]
    assert (left(talk), observed(talk).ordinary()) == ([], [])


def test_an_answer_without_a_request_refuses_nobody() -> None:
    talk = Conversation()
    asked = unregister(talk).answered(BROKER_ID_NOT_REGISTERED)
    thinned = talk.without_packets(asked.packets)
    assert left(thinned) == []
    assert observed(thinned).exchanges > 0


def test_what_could_be_judged() -> None:
    talk = Conversation()
    opened(talk, 1)
    unregister(talk).answered()
    seen = observed(talk)
    assert (seen.exchanges, seen.judged) == (6, 3)  # two ApiVersions, the join, two fetches, the last request


def test_what_is_covered() -> None:
    talk = Conversation()
    opened(talk).connection.close()
    observer = Observer(registry())
    observer.page(events(talk))
    foreign = Flow(9, Ends("10.0.0.1:1", "10.0.0.9:443"), 1, 5, service="tls", last_time_ns=7)
    observer.page(
        (
            Closed(foreign, 9, 9, "fin"),
            Gap(foreign, 0, 8, 8, 7, 8, 100, "missing"),
            Weird("DUPLICATE_PACKETS", "reassembly", 9, 9, times=40),
            Weird("STREAM_GAP", "reassembly", 9, 9),
        )
    )
    last_ns = talk.packets()[-2][1].time_ns  # the FIN that ends it
    assert observer.observed.covered() == {
        "since_ns": 5, "until_ns": last_ns, "brokers": ["10.0.0.9:9092"], "tls_connections": 1, "duplicates": 40,
    }  # fmt: skip
    assert observer.observed.gaps == 1


def test_parts_are_added() -> None:
    talk = Conversation()
    opened(talk, 1).share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    unregister(talk).answered(BROKER_ID_NOT_REGISTERED)
    whole, total = observed(talk), Observed()
    total.join(pickle.loads(pickle.dumps(whole)))
    total.join(Observed())
    assert total == whole
    total.join(whole)
    assert (total.exchanges, total.judged) == (2 * whole.exchanges, 2 * whole.judged)
    assert total.unexplained() == [
        {"api": "UnregisterBroker", "error_code": BROKER_ID_NOT_REGISTERED, "count": 2, "clients": ["c1"]}
    ]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limits refusals are counted without their client's name, and the oldest are explained no more."""
    monkeypatch.setattr(limits, "STATISTICS_ROWS", 2)
    monkeypatch.setattr(limits, "REFUSALS", 1)
    talk = Conversation()
    for client in ("c1", "c2", "c3", "c4"):
        unregister(talk, client).answered(BROKER_ID_NOT_REGISTERED)
    assert left(talk) == [("UnregisterBroker", BROKER_ID_NOT_REGISTERED, 4, [OTHERS, "c1", "c2"])]
    talk = Conversation()
    a = opened(talk, 1)
    for _ in range(3):
        a.share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    run = Run(registry())
    run.page(events(talk))
    run.close()
    assert run.observed.unexplained()[0]["count"] == 2


@pytest.mark.parametrize("name", ["adv-acks", "share-restart", "zk-old-clients"])
def test_every_code_is_counted_that_statistics_count(name: str) -> None:
    counting, run = Statistics(registry()), Run(registry())
    for page in pages([CAPTURES / f"{name}.pcap"], Options(records=False)):
        run.page(page)
        for event in page:
            counting.feed(event)
    answered = Counter[tuple[str, int]]()
    for refusal, count in run.observed.answered.items():
        answered[refusal[:2]] += count
    errors = counting.summary()["errors"]
    counted = {(api, row["error_code"]): count for row in errors for api, count in row["apis"].items() if count}
    assert answered == counted != {}

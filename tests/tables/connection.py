"""A connection with holes, odd frames and requests that nobody answers: what each table says of it."""

from __future__ import annotations

from typing import Any

from kshark import __version__
from kshark.analysis import Closing, ListedSession, ListedStep, Moment, SessionStep, ShareSession
from kshark.model import Finding, Weird, Witness
from kshark.tables.capture_summary import Ended
from tests.tables.story import BROKER, CLIENT, STEP_NS, Cells, Chapter, Story, capture_row, ns
from tests.tables.story import row as row_at

PAUSE_NS = 2_000_000_000
#: The last packet before the pause.
BEFORE = 14


def told() -> Story:
    """The sniffer missed packet 12, a request; its answer came, and two seconds later the connection went on."""
    story = Story(missed=(12,))
    story.ask(18, 3, client_software_name="demo", client_software_version="1.0")
    story.answer(18, 3, more=b"\0")
    story.ask(3, 12, topics=None)
    brokers = [{"node_id": 7, "host": "localhost", "port": 9092, "rack": None}]
    story.answer(3, 12, brokers=brokers, topics=[])
    story.ask(12, 4, more=b"\0", mss=20, group_id="g", generation_id=3, member_id="m")
    story.answer(12, 4, mss=10, throttle_time_ms=4, error_code=27)
    story.ask(12, 4, group_id="g", generation_id=3, member_id="m")
    story.answer(12, 4)
    story.ask(0, 9, acks=0, timeout_ms=1, topic_data=[])
    story.wire.pause(PAUSE_NS // 10**9)
    story.ask(12, 4, group_id="h", generation_id=4, member_id="n")
    story.close()
    return story


def at(packet: int) -> int:
    return ns(packet) + (PAUSE_NS if packet > BEFORE else 0)


FINDING = Finding(
    code="EPOCH_REPLAY", rule=18, severity="error", verdict="violation", blame="client", time_ns=ns(11), packet=11,
    flow=0,
    broker="127.0.0.1:9092", client="10.0.0.1:50000", group_id="g", member_id="m", topic_id="AAAAAAAAAAAAAAAAAAAABw",
    partition=2,
    cause="retry", witness=[Witness(0, 6, 15, None), Witness(2, None, None, None, 12, "closed"), Witness(0, 3, 9, 11)],
    argument="because", unknown_because="gap",
    client_id="c1", software="demo 1.0",
)  # fmt: skip
#: Of a connection that these events do not hold.
ELSEWHERE = Finding(
    code="NO_RECOVERY", rule=None, severity="note", verdict="note", blame="unknown", time_ns=ns(3), packet=3, flow=5,
    broker="a:1", client="b:2", group_id=None, member_id=None, topic_id=None, partition=None, cause=None, witness=[],
    argument="",
    unknown_because=None,
)  # fmt: skip
#: An event, and another one that explains it.
INCIDENT = Finding(
    code="THROTTLED", rule=135, severity="note", verdict="note", blame="unknown", time_ns=ns(5), packet=5, flow=0,
    broker=BROKER, client=CLIENT, group_id=None, member_id=None, topic_id=None, partition=None, cause=None, witness=[],
    argument="slow", unknown_because=None, until_ns=ns(12), until_packet=12, event_code="BROKER_DOWN", event_packet=4,
)  # fmt: skip
SESSION = ShareSession(
    "127.0.0.1:9093",
    "g",
    "m",
    2,
    Moment(5, ns(5)),
    Closing(11, ns(11), "broker_restart"),
    1,
    7,
    9,
    4,
    {"123": 3, "42": 2},
    6,
)
#: blake2b, 8 bytes, of the session's address (not its requests') or "a:1", "g" and "m", as signed numbers (by hashlib,
#: once).
SESSION_KEY, OTHER_KEY = 5957469872887161615, -5158439837663174099
STEPS = (
    ListedStep(
        Witness(0, 3, 9, 11),
        ns(9),
        ns(11),
        BROKER,
        CLIENT,
        "g",
        "m",
        SESSION,
        SessionStep(9, "ShareFetch", 7, [2, 3], 123, "wrong epoch", "stale"),
    ),
    ListedStep(
        Witness(0, 6, 15, None),
        at(15),
        at(15),
        BROKER,
        CLIENT,
        "g",
        "m",
        SESSION,
        SessionStep(15, "ShareFetch", -1, 0, None, "unanswered", None),
    ),
    ListedStep(
        Witness(5, 7, 3, 4),
        ns(3),
        ns(4),
        "a:1",
        "b:2",
        "g",
        "m",
        None,
        SessionStep(3, "ShareAcknowledge", 0, None, 42, "refused", None),
    ),
)
NOWHERE = {"flow_id": None, "broker": None, "client": None, "exchange": None}

EMPTY_HEARTBEAT = '{{"group_id":"{}","generation_id":{},"member_id":"{}","group_instance_id":null}}'


def row(packet: int, **cells: Any) -> Cells:
    return row_at(packet, PAUSE_NS if packet > BEFORE else 0, **cells)


def request(
    packet: int, key: int, api: str, version: int, number: int, size: int, body: str, asked_at: int, **cells: Any
) -> Cells:
    """The cells of a row of `exchanges` that its request tells."""
    asked = {
        "api_key": key,
        "api": api,
        "api_version": version,
        "correlation_id": number,
        "client_id": "c1",
        "request_json": body,
    }
    place = {"request_packet": packet, "request_ts_ns": at(packet), "request_position": asked_at}
    return row(packet, **{**asked, **place, "request_bytes": size, **cells})


def answer(packet: int, size: int, body: str, position: int, *, first: int | None = None) -> Cells:
    """Those that the answer tells, which came a step behind the request."""
    place = {
        "response_packet": packet,
        "response_ts_ns": ns(packet),
        "response_position": position,
        "position": position + 1,
    }
    how = {"outcome": "answered", "latency_ns": STEP_NS, "throttle_time_ms": 0, "response_first_packet": first}
    return {**place, **how, "response_bytes": size, "response_json": body}


CHAPTER = Chapter(
    told,
    {
        "exchanges": [
            request(
                4, 18, "ApiVersions", 3, 1, 23, '{"client_software_name":"demo","client_software_version":"1.0"}', 1,
                **answer(5, 13, '{"error_code":0,"api_keys":[],"throttle_time_ms":0}', 2), error_code=0,
                request_knows_packet=0, response_knows_packet=4,
                response_weird=["TRAILING_BYTES"], response_detail="TRAILING_BYTES at byte 8, field (none)",
            ),
            request(
                6, 3, "Metadata", 12, 2, 17,
                '{"topics":null,"allow_auto_topic_creation":true,"include_topic_authorized_operations":false}', 4,
                **answer(
                    7, 37,
                    '{"throttle_time_ms":0,"brokers":[{"node_id":7,"host":"localhost","port":9092,"rack":null}],"cluster_id":null,'
                    '"controller_id":-1,"topics":[]}', 5,
                ),
                request_knows_packet=5, response_knows_packet=6,
            ),
            request(
                9, 12, "Heartbeat", 4, 3, 24, EMPTY_HEARTBEAT.format("g", 3, "m"), 7, request_first_packet=8,
                **{**answer(11, 12, '{"throttle_time_ms":4,"error_code":27}', 8, first=10), "throttle_time_ms": 4, "error_codes": [27]},
                error_code=27, group_id="g", member_id="m",
                request_weird=["TRAILING_BYTES"], request_detail="TRAILING_BYTES at byte 10, field (none)",
                request_knows_packet=7, response_knows_packet=9,
            ),
            row(
                13, correlation_id=4, response_packet=13, response_ts_ns=ns(13), response_bytes=12, outcome="orphan",
                response_weird=["RESPONSE_UNMATCHED"], response_position=10, position=11, after_request_packet=9,
            ),
            request(
                14, 0, "Produce", 9, 5, 22, '{"transactional_id":null,"acks":0,"timeout_ms":1,"topic_data":[]}', 13,
                position=14,
                outcome="one_way", request_weird=["RESYNC"], request_knows_packet=13,
            ),
            request(
                15, 12, "Heartbeat", 4, 6, 23, EMPTY_HEARTBEAT.format("h", 4, "n"), 15, position=18,
                outcome="unanswered",
                group_id="h", member_id="n", request_weird=["RESYNC"], given_up_packet=17,
                request_knows_packet=13,
            ),
        ],
        "heartbeats": [
            row(
                9, correlation_id=3, group_type="classic", group_id="g", member_id="m", member_epoch=3,
                outcome="answered", error_code=27
            ),
            row(15, correlation_id=6, group_type="classic", group_id="h", member_id="n", member_epoch=4, outcome="unanswered"),
        ],
        "weirds": [
            row(
                5, exchange=4, stage="codec", code="TRAILING_BYTES", detail="TRAILING_BYTES at byte 8, field "
                    "(none)", kind="message",
                times=1,
                direction="broker", size_bytes=13, correlation_id=1,
            ),
            row(
                9, stage="codec", code="TRAILING_BYTES", detail="TRAILING_BYTES at byte 10, field "
                    "(none)", kind="message", times=1,
                direction="client", first_packet=8, size_bytes=24, correlation_id=3,
            ),
            row(
                13, stage="exchange", code="RESPONSE_UNMATCHED", detail="", kind="message", times=1, direction="broker",
                size_bytes=12,
                correlation_id=4,
            ),
            row(
                14, exchange=None, stage="reassembly", code="STREAM_GAP", detail="missing", kind="gap", times=1,
                direction="client",
                first_packet=9,
                last_packet=14, size_bytes=27, position=12,
            ),
            row(
                14, stage="framing", code="RESYNC", detail="", kind="message", times=1,
                direction="client", size_bytes=22, correlation_id=5,
            ),
            row(
                15, **NOWHERE, stage="link", code="SILENCE_UNPROVED", detail="for 2.001 s", kind="event", times=1,
                first_packet=14, size_bytes=0, by_ns=2_001_000_600,
            ),
            row(
                17, exchange=15, stage="exchange", code="REQUEST_UNANSWERED", detail="Heartbeat with correlation id 6 "
                    "in packet 15",
                kind="event", times=1,
                direction="client", first_packet=15, size_bytes=0, correlation_id=6, position=17,
            ),
            row(
                15, stage="framing", code="RESYNC", detail="", kind="message", times=1,
                direction="client", size_bytes=23, correlation_id=6,
            ),
            row(18, **NOWHERE, stage="capture", code="CAPTURE_CUT", detail="inside a "
                "packet", kind="event", times=1, size_bytes=4),
        ],
        "flows": [
            row(
                1, exchange=None, node_id=7, listener="localhost:9092", software_name="demo", software_version="1.0",
                service="kafka",
                told=True,
                opened_by="client", half_closed_packet=16, half_closed_ts_ns=at(16), half_closed_by="client",
                half_closed_position=16,
                first_request_packet=4, last_request_packet=15, first_response_packet=5, closed_packet=17,
                closed_ts_ns=at(17),
                closed_by="client", ended="fin", last_packet=17, last_ts_ns=at(17), client_bytes=129, broker_bytes=90,
                gaps=1,
            ),
        ],
        "steps": [
            row(
                9, correlation_id=3, api="ShareFetch", group_id="g", member_id="m", session_key=SESSION_KEY, session=2,
                epoch=7,
                expected=[2, 3], error_code=123, outcome="wrong epoch", cause="stale",
            ),
            row(
                15, correlation_id=6, api="ShareFetch", group_id="g", member_id="m", session_key=SESSION_KEY, session=2,
                epoch=-1,
                expected=[0], outcome="unanswered",
            ),
            row(
                3, flow_id=None, broker="a:1", client="b:2", correlation_id=7, api="ShareAcknowledge", group_id="g",
                member_id="m",
                session_key=OTHER_KEY, epoch=0, error_code=42, outcome="refused",
            ),
        ],
        "sessions": [
            row(
                4, broker="127.0.0.1:9093", group_id="g", member_id="m", session_key=SESSION_KEY, session=2,
                opened_packet=5,
                opened_ts_ns=ns(5), closed_packet=11, closed_ts_ns=ns(11), ended="broker_restart", first_epoch=1,
                last_epoch=7, requests=9,
                accepted=4, rejected=[(123, 3), (42, 2)], connections=6,
            ),
        ],
        "findings": [
            row(
                11, exchange=9, correlation_id=3, code="EPOCH_REPLAY", rule=18, severity="error", verdict="violation",
                blame="client",
                flow=0, group_id="g",
                member_id="m", topic_id="AAAAAAAAAAAAAAAAAAAABw", partition=2, cause="retry",
                witness=[(0, 6, 15, None, None, None), (2, None, None, None, 12, "closed"), (0, 3, 9, 11, None, None)],
                argument="because", unknown_because="gap", client_id="c1", software="demo 1.0",
            ),
            row(
                3, flow_id=None, exchange=None, broker="a:1", client="b:2", code="NO_RECOVERY", severity="note",
                verdict="note",
                blame="unknown", flow=5,
                witness=[], argument="",
            ),
            row(
                5, exchange=None, code="THROTTLED", rule=135, severity="note", verdict="note",
                blame="unknown", flow=0, witness=[], argument="slow", until_packet=12, until_ts_ns=ns(12),
                event_code="BROKER_DOWN", event_packet=4,
            ),
        ],
        "captures": [
            capture_row(
                files=["a.pcap", "-"], sha256=["ab" * 32, None], size_bytes=999, host="EPYC; Linux 6.1", clusters=[], brokers=[BROKER],
                broker_releases=[], client_software=["demo 1.0"], until_ts_ns=at(17), packets=17,
                stream_bytes=129 + 90, connections=1, kafka_connections=1, tls_connections=0, gaps=1, missing_bytes=27,
                weirds=[
                    ("RESYNC", 2), ("TRAILING_BYTES", 2), ("CAPTURE_CUT", 1), ("REQUEST_UNANSWERED", 1),
                    ("RESPONSE_UNMATCHED", 1), ("SILENCE_UNPROVED", 1),
                ],
                exchanges=6, answered=3, unanswered=1, one_way=1, orphans=1, body_cut=0, judged=3, coverage=0.5,
                sessions=1, violations=1, unknown=0, notes=2,
                findings=[
                    ("EPOCH_REPLAY", "violation", 1), ("NO_RECOVERY", "note", 1), ("THROTTLED", "note", 1),
                ],
                kshark=__version__, seconds=1.5,
            ),
        ],
    },
    (
        Weird("CAPTURE_CUT", "capture", 18, at(18), "inside a packet", size=4), FINDING, ELSEWHERE, INCIDENT, *STEPS,
        ListedSession(0, 4, ns(4), CLIENT, SESSION),
    ),
    ended=Ended(["a.pcap", "-"], ["ab" * 32, None], 999, "EPYC; Linux 6.1", 17, 1.5),
)  # fmt: skip

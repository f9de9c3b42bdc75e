"""A client behind a load balancer, which a PROXY header names."""

from __future__ import annotations

from kshark.model import Finding
from tests.tables.story import CLIENT, Chapter, Story, ns
from tests.tables.story import row as row_at

REAL = "203.0.113.7:41000"
HEADER = b"PROXY TCP4 203.0.113.7 10.0.0.9 41000 9092\r\n"
HEADERS = (
    f'[{{"version":1,"command":"proxy","family":"tcp4","size":{len(HEADER)},"source":"203.0.113.7:41000",'
    '"destination":"10.0.0.9:9092"}]'
)


def told() -> Story:
    story = Story()
    story.tcp.client(HEADER)
    story.ask(12, 4, group_id="g")
    story.answer(12, 4)
    story.close()
    return story


FINDING = Finding(
    code="EPOCH_REPLAY", rule=18, severity="error", verdict="violation", blame="client", time_ns=ns(5), packet=5,
    flow=0,
    broker="127.0.0.1:9092", client=REAL, group_id="g", member_id="m", topic_id=None, partition=None, cause=None,
    witness=[], argument="because", unknown_because=None, proxy=CLIENT,
)  # fmt: skip

CHAPTER = Chapter(
    told,
    {
        "exchanges": [
            row_at(
                5, client=REAL, proxy=CLIENT, api_key=12, api="Heartbeat", api_version=4, correlation_id=1, client_id="c1",
                request_packet=5, response_packet=6, request_ts_ns=ns(5), response_ts_ns=ns(6), latency_ns=1_000_600,
                request_bytes=22, response_bytes=12, outcome="answered", error_code=0, throttle_time_ms=0, group_id="g",
                member_id="",
                request_json='{"group_id":"g","generation_id":0,"member_id":"","group_instance_id":null}',
                response_json='{"throttle_time_ms":0,"error_code":0}',
                request_position=1, response_position=2, position=3, request_knows_packet=0, response_knows_packet=5,
            ),
        ],
        "flows": [
            row_at(
                1, exchange=None, client=REAL, proxy=CLIENT, proxy_headers=HEADERS, service="kafka", told=True,
                opened_by="client", half_closed_packet=7, half_closed_ts_ns=ns(7), half_closed_by="client",
                half_closed_position=4, first_request_packet=5, last_request_packet=5, first_response_packet=6,
                closed_packet=8, closed_ts_ns=ns(8), closed_by="client", ended="fin", last_packet=8, last_ts_ns=ns(8),
                client_bytes=70, broker_bytes=16, gaps=0,
            ),
        ],
        "findings": [
            row_at(
                5, exchange=None, client=REAL, proxy=CLIENT, code="EPOCH_REPLAY", rule=18, severity="error",
                verdict="violation", blame="client", flow=0, group_id="g", member_id="m", witness=[],
                argument="because",
            ),
        ],
    },
    (FINDING,),
)  # fmt: skip

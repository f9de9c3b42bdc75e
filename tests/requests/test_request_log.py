"""A broker's request log is a capture: the same messages and findings as from packets, and no accusation more."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from kshark.capture import open_captures, read_bytes
from kshark.cli import main
from kshark.errors import UsageError
from kshark.model import Closed, Exchange, Finding, Gap, Message, Opened, Weird
from kshark.pipeline import JUDGED, Engine, Options
from kshark.registry import Registry
from kshark.run import Run
from tests.shared import ROOT

CAPTURES = ROOT / "captures"
#: Findings are the same from packets and from the log.
EQUAL = ("java-limit", "seed-messy", "share-window", "share-java-renew", "share-librdkafka", "streams-groups")
#: Clients break rules here: the log may prove less.
LESS = ("adv-acks", "adv-epochs", "adv-members", "adv-races-4.1.2", "adv-sessions-4.2.1", "aimed", "share-restart")
REGISTRY = Registry()


@cache
def log_of(name: str) -> bytes:
    return gzip.decompress((CAPTURES / f"{name}.requests.jsonl.gz").read_bytes())


def judged(items: Any) -> list[Finding]:
    run = Run(REGISTRY)
    for page in Engine(JUDGED, REGISTRY).pages(items):
        run.page(page)
    run.close()
    return [*run.findings]


def events(data: bytes) -> list[Any]:
    return [event for page in Engine(Options(), REGISTRY).pages(read_bytes(data)) for event in page]


def counted(findings: Sequence[Finding]) -> Counter[tuple[str, str]]:
    return Counter((finding.verdict, finding.code) for finding in findings)


def accused(findings: Sequence[Finding]) -> set[tuple[str, int | None]]:
    """Clients and the request that is the last witness against them."""
    return {(it.client, it.witness[-1].correlation_id) for it in findings if it.verdict == "violation"}


@pytest.mark.parametrize("name", EQUAL)
def test_the_log_gives_the_findings_of_the_packets(name: str) -> None:
    packets = judged(open_captures([CAPTURES / f"{name}.pcap"]))
    assert counted(judged(read_bytes(log_of(name)))) == counted(packets)


@pytest.mark.parametrize("name", LESS)
def test_the_log_accuses_nobody_whom_the_packets_do_not_accuse(name: str) -> None:
    packets = accused(judged(open_captures([CAPTURES / f"{name}.pcap"])))
    assert accused(judged(read_bytes(log_of(name)))) <= packets


def test_a_skipped_epoch_names_the_request_that_was_rejected() -> None:
    """A log does not show whether the client had its error by then. It skipped an epoch in either case."""
    (text,) = (
        str(it.argument)
        for it in judged(read_bytes(log_of("adv-epochs")))
        if it.code == "EPOCH_SKIP_AHEAD" and it.witness[-1].correlation_id == 36
    )
    assert "ShareFetch #35 (epoch 7) was rejected before its epoch was counted" in text
    assert "(error 42), so 7 was still due; ShareFetch #36 (epoch 8) was refused" in text


@pytest.mark.parametrize("name", ["adv-epochs", "adv-sessions-4.2.1", "aimed", "share-java-explicit"])
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_missing_lines_add_no_accusation(name: str, share: float) -> None:
    lines, chance = log_of(name).splitlines(keepends=True), random.Random(name)
    whole = {(it.code, it.client) for it in judged(read_bytes(log_of(name))) if it.verdict == "violation"}
    left = b"".join(line for line in lines if chance.random() > share)
    assert {(it.code, it.client) for it in judged(read_bytes(left)) if it.verdict == "violation"} <= whole


@pytest.mark.parametrize("key", [78, 79, 76])
def test_a_filtered_log_adds_no_accusation(key: int) -> None:
    for name in ("share-java-explicit", "seed-messy"):
        left = b"".join(line for line in log_of(name).splitlines(keepends=True) if b'"requestApiKey":%d,' % key in line)
        assert not accused(judged(read_bytes(left)))


def test_bodies_are_those_of_the_packets() -> None:
    """Requests by client and correlation id: everything but the records, which a log leaves out."""

    def bodies(found: list[Any]) -> dict[tuple[str, Any, str], Any]:
        return {
            (it.client, it.correlation_id, it.kind): str(it.body)
            for it in found
            if type(it) is Message and it.api in ("ShareAcknowledge", "ShareGroupHeartbeat", "ApiVersions", "Metadata")
        }

    wire = bodies(
        [e for p in Engine(Options(), REGISTRY).pages(open_captures([CAPTURES / "java-limit.pcap"])) for e in p]
    )
    logged = bodies(events(log_of("java-limit")))
    both = wire.keys() & logged.keys()
    assert len(both) > 100
    assert {key for key in both if wire[key] != logged[key]} == set()


# -- lines

LINE = (
    b'{"isForwarded":false,"requestHeader":{"requestApiKey":76,"requestApiVersion":1,"correlationId":%d,"clientId":"c",'
    b'"requestApiKeyName":"SHARE_GROUP_HEARTBEAT"},"request":{"groupId":"g","memberId":"AAAAAAAAAAAAAAAAAAAAAA",'
    b'"memberEpoch":1,"rackId":null,"subscribedTopicNames":null},"response":{"throttleTimeMs":0,"errorCode":0,'
    b'"errorMessage":null,"memberId":"AAAAAAAAAAAAAAAAAAAAAA","memberEpoch":1,"heartbeatIntervalMs":5000,'
    b'"assignment":null},"connection":"%b","totalTimeMs":%d.5,"listener":"P"}'
)
CONNECTION = b"127.0.0.1:9092-10.0.0.1:50000-0-1"


def line(number: int, *, total_ms: int = 1, connection: bytes = CONNECTION) -> bytes:
    return LINE % (number, connection, total_ms)


@pytest.mark.parametrize(
    ("prefix", "suffix", "end_ns"),
    [
        (b"[2026-11-21 03:37:41,218] DEBUG Completed request:", b" (kafka.request.logger)", 1795232261218000000),
        (b"2026-11-21T03:37:41.218Z TRACE kafka.request.logger - Completed request:", b"", 1795232261218000000),
        (b"2026-11-21 04:37:41.218+0100 Completed request:", b"", 1795232261218000000),
        (b"1795232261218 Completed request:", b"", 1795232261218000000),
        (b"20261121033741218 Completed request:", b"", 1795232261218000000),  # %d{COMPACT} of log4j
        (
            b"2026-11-21T03:37:42.000000001Z stdout F [2026-11-21 03:37:41,218] Completed request:",
            b"\r",
            1795232262000000001,
        ),
    ],
)
def test_any_layout_of_a_line_is_read(prefix: bytes, suffix: bytes, end_ns: int) -> None:
    messages = [it for it in events(prefix + line(7) + suffix + b"\n") if type(it) is Message]
    assert [(it.kind, it.api, it.client, it.broker) for it in messages] == [
        (kind, "ShareGroupHeartbeat", "10.0.0.1:50000", "127.0.0.1:9092") for kind in ("request", "response")
    ]
    assert [it.time_ns for it in messages] == [end_ns - 1_500_000, end_ns]


def at(second: int, text: bytes) -> bytes:
    return b"[2026-11-21 03:37:%02d,000] Completed request:%b\n" % (second, text)


def test_a_request_that_waited_stands_where_it_began() -> None:
    other = b"127.0.0.1:9092-10.0.0.2:50000-0-2"
    found = events(at(10, line(1, connection=other)) + at(11, line(2, total_ms=9000)))
    assert [(it.kind, it.correlation_id) for it in found if type(it) is Message] == [
        ("request", 2), ("request", 1), ("response", 1), ("response", 2),
    ]  # fmt: skip


def test_lines_that_are_no_requests_are_counted_and_the_last_may_be_cut() -> None:
    data = (
        at(1, line(1)) + b"a stack trace\n" + b"[2026] Completed request:{\n" + line(2) + b"\n" + at(2, line(3))[:200]
    )
    weirds = {it.code: (it.size, it.detail) for it in events(data) if type(it) is Weird and it.code != "LOGGED_TIMES"}
    assert weirds["LOG_LINES_UNREADABLE"] == (3, "3 lines; the first is line 2: no completed request")
    assert weirds["CAPTURE_CUT"][1] == "the file ends inside line 5"


def test_a_body_that_does_not_fit_is_cut_and_reported() -> None:
    found = events(at(1, line(1).replace(b'"memberEpoch":1,"rackId"', b'"memberEpoch":"x","rackId"')))
    request = next(it for it in found if type(it) is Message)
    assert request.weird == ["BODY_CUT"]
    assert "LOG_LINES_UNREADABLE" in [it.code for it in found if type(it) is Weird]


@pytest.mark.parametrize("kept", [b"null", b"{}"])
def test_a_request_that_the_broker_did_not_keep_is_cut(kept: bytes) -> None:
    """It came before the log was switched on; or it is an ApiVersions in a version that the broker lacks."""
    head, tail = line(1).split(b'"request":', 1)
    found = events(at(1, head + b'"request":' + kept + tail[tail.index(b',"response"') :]))
    request, response = (it for it in found if type(it) is Message)
    assert (request.weird, response.weird, response.body.member_epoch) == (["BODY_CUT"], UNSET, 1)
    assert [it.code for it in found if type(it) is Weird] == ["LOGGED_TIMES"]


def test_a_body_without_fields_is_whole() -> None:
    """ApiVersions 0 has none."""
    empty = line(1).replace(b'"requestApiKey":76,"requestApiVersion":1', b'"requestApiKey":18,"requestApiVersion":0')
    begin, end = empty.index(b'"request":{') + len(b'"request":'), empty.index(b',"connection"')
    found = events(at(1, empty[:begin] + b'{},"response":{"errorCode":0,"apiKeys":[]}' + empty[end:]))
    assert [(it.kind, it.api, it.weird) for it in found if type(it) is Message] == [
        ("request", "ApiVersions", UNSET),
        ("response", "ApiVersions", UNSET),
    ]


@pytest.mark.parametrize(
    ("key", "version", "body", "field"),
    [
        (28, 3, b'{"transactionalId":"t","groupId":"g","producerId":1,"producerEpoch":0,"generationId":7,"memberId":"",'
         b'"groupInstanceId":null,"topics":[]}', "generation_id_or_member_epoch"),
        (28, 5, b'{"transactionalId":"t","groupId":"g","producerId":1,"producerEpoch":0,"generationIdOrMemberEpoch":7,'
         b'"memberId":"m","groupInstanceId":null,"topics":[]}', "generation_id_or_member_epoch"),
    ],
)  # fmt: skip
def test_fields_are_read_by_the_names_of_earlier_releases(key: int, version: int, body: bytes, field: str) -> None:
    text = line(1).replace(
        b'"requestApiKey":76,"requestApiVersion":1', b'"requestApiKey":%d,"requestApiVersion":%d' % (key, version)
    )
    begin, end = text.index(b'"request":{') + len(b'"request":'), text.index(b',"response"')
    request = next(it for it in events(at(1, text[:begin] + body + text[end:])) if type(it) is Message)
    assert (request.weird, getattr(request.body, field)) == (UNSET, 7)


def test_a_log_shows_no_ends_and_skipped_ids_are_gaps() -> None:
    found = events(at(1, line(1)) + at(2, line(2)) + at(3, line(9)))
    assert [it.flow.begun for it in found if type(it) is Opened] == [(False, False)]
    assert [it.how for it in found if type(it) is Closed] == ["capture"]
    assert len([it for it in found if type(it) is Gap]) == 2
    assert [it.outcome for it in found if type(it) is Exchange] == ["answered"] * 3


def test_forwarded_requests_count_once() -> None:
    twice = at(1, line(1)) + at(1, line(1).replace(b'"isForwarded":false', b'"isForwarded":true'))
    assert len([it for it in events(twice) if type(it) is Message]) == 2


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_reads_of_any_size_give_the_same(size: int) -> None:
    data = b"".join(log_of("seed-messy").splitlines(keepends=True)[:30])
    from kshark.capture.request_log import RequestLogReader

    reader, rows = RequestLogReader(), []
    for begin in range(0, len(data), size):
        rows += [*reader.feed(data[begin : begin + size])]
    rows += [*reader.close()]
    whole = list(read_bytes(data))
    assert [it.time_ns.tolist() for it in rows] == [it.time_ns.tolist() for it in whole]  # type: ignore[union-attr]


def test_damaged_lines_never_fail() -> None:
    chance, data = random.Random(5), bytearray(b"".join(log_of("seed-messy").splitlines(keepends=True)[:40]))
    for _ in range(30):
        damaged = bytearray(data)
        for _ in range(40):
            damaged[chance.randrange(400, len(damaged))] = chance.randrange(256)
        events(bytes(damaged))


# -- commands


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kafka-request.log"
    path.write_bytes(log_of("java-limit"))
    return path


def test_check_names_lines(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-V", str(log)]) == 0
    out = capsys.readouterr().out
    assert "SESSION_LIMIT" in out
    assert f"{log}: line 121" in out
    assert "Wireshark" not in out


@pytest.mark.parametrize("command", ["read", "sessions", "deliveries", "groups", "stats", "events"])
def test_commands_about_messages_work(log: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, str(log)]) == 0
    assert capsys.readouterr().out


def test_packets_cannot_be_copied(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["annotate", "-o", str(tmp_path / "a.pcapng"), str(log)]) == 2
    assert "a request log has no packets to copy" in capsys.readouterr().err


def test_rotated_files_of_brokers_are_one_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = log_of("java-limit").splitlines(keepends=True)
    names = [str(tmp_path / name) for name in ("request.log.1", "request.log")]
    for name, part in zip(names, (lines[:70], lines[70:]), strict=True):
        Path(name).write_bytes(b"".join(part))
    assert codes([*names], capsys) == codes([str(_whole(tmp_path, lines))], capsys)


def codes(files: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    main(["check", "-T", "json", *files])
    found = [json.loads(text).get("code") for text in capsys.readouterr().out.splitlines()]
    assert any(found)
    return found


def _whole(folder: Path, lines: list[bytes]) -> Path:
    path = folder / "whole"
    path.write_bytes(b"".join(lines))
    return path


def test_a_log_and_packets_are_not_one_capture(log: Path) -> None:
    with pytest.raises(UsageError, match="read them apart"):
        open_captures([log, CAPTURES / "java-limit.pcap"])


def test_a_folder_with_packets_leaves_out_its_logs(log: Path) -> None:
    (log.parent / "a.pcap").write_bytes((CAPTURES / "java-limit.pcap").read_bytes())
    assert open_captures([log.parent]).names == [str(log.parent / "a.pcap")]

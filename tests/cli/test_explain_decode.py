"""`kshark explain` and `kshark decode`."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import pytest

import kshark as face
from tests.cli.command import Run

TOPIC = "AAAAAAAAAAAAAAAAAAAABw"
ACKNOWLEDGE: dict[str, Any] = {
    "group_id": "g",
    "member_id": None,
    "share_session_epoch": 5,
    "topics": [
        {
            "topic_id": TOPIC,
            "partitions": [
                {
                    "partition_index": 0,
                    "acknowledgement_batches": [{"first_offset": 1, "last_offset": 2, "acknowledge_types": [1]}],
                }
            ],
        }
    ],
}


def test_explain_knows_everything_by_its_name(kshark: Run) -> None:
    done = kshark(
        "explain", "epoch_skip_ahead", "sharefetch", "invalid_record_state", "121", "hidden_traffic", "tables", "fields"
    )
    assert done.code == 0
    for head in (
        "EPOCH_SKIP_AHEAD  rule 20",
        "ShareFetch  API 78",
        "121 INVALID_RECORD_STATE  not retriable",
        "hidden_traffic  why",
        "share_requests  one row per",
        "  kafka.latency_ms ",
    ):
        assert head in done.out


def test_explain_alone_lists_the_catalogue(kshark: Run) -> None:
    assert "  EPOCH_SKIP_AHEAD " in kshark("explain").out


def test_rules_are_listed_with_what_they_come_to(kshark: Run) -> None:
    assert any(
        line.split()[:5] == ["20", "EPOCH_SKIP_AHEAD", "session", "client", "V"]
        for line in kshark("explain", "rules").lines
    )
    *rows, last = kshark("explain", "rules", "-T", "json").json
    assert {row["code"]: (row["machine"], row["blame"]) for row in rows}["STATE_LOST"] == ("persister", ["broker"])
    assert last["summary"]["rules"] == len(rows)


@pytest.mark.parametrize("words", [["-T", "json"], ["fields", "-T", "json"]])
def test_a_page_of_text_is_no_object(kshark: Run, words: list[str]) -> None:
    done = kshark("explain", *words)
    assert (done.code, done.out, done.err) == (
        2,
        "",
        "kshark: -T json works with APIs, errors, KIPs and rules only: kshark explain ShareFetch -T json, kshark "
        "explain rules -T json\n",
    )


def test_a_number_is_an_error_and_its_api_is_named_beside_it(kshark: Run) -> None:
    assert "API 78 is ShareFetch: kshark explain ShareFetch" in kshark("explain", "78").lines
    assert kshark("explain", "-1").lines[0] == "-1 UNKNOWN_SERVER_ERROR  not retriable"


def test_an_api_lists_its_errors_with_their_meaning(kshark: Run) -> None:
    lines = kshark("explain", "ShareAcknowledge", "Produce").lines
    assert (
        "  123 INVALID_SHARE_SESSION_EPOCH  The epoch is not the one that the share session expects. · retriable"
        in lines
    )
    assert any(line.startswith("   19 NOT_ENOUGH_REPLICAS ") for line in lines)
    assert any(line.startswith("  100 UNKNOWN_TOPIC_ID ") and line.endswith(" · version 13+") for line in lines)


def body(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "body"
    path.write_bytes(data)
    return path


ENCODED = face.encode(79, 1, "request", ACKNOWLEDGE)


@pytest.mark.parametrize(
    "data",
    [
        ENCODED,
        ENCODED.hex().encode(),
        ENCODED.hex(" ").upper().encode() + b"\n",
        ENCODED.hex(":").encode(),
        b"0x" + ENCODED.hex(" 0x"[:1]).encode(),
    ],
    ids=["raw", "hex", "spaced", "colons", "0x"],
)
def test_a_body_is_decoded_whatever_it_is_written_in(kshark: Run, tmp_path: Path, data: bytes) -> None:
    done = kshark("decode", "ShareAcknowledge", 1, "request", body(tmp_path, data))
    assert (done.code, done.err) == (0, "")
    assert done.json == [ACKNOWLEDGE]


def test_standard_input_is_read_where_no_file_is_named(kshark: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(ENCODED.hex().encode())))
    assert kshark("decode", "79", "1", "request").json == [ACKNOWLEDGE]


def test_a_header_in_front_is_shown_too(kshark: Run, tmp_path: Path) -> None:
    framed = struct.pack(">hhih", 79, 1, 12, 2) + b"c1\0" + ENCODED
    done = kshark("decode", "ShareAcknowledge", 1, "request", body(tmp_path, framed), "--header")
    assert done.json[0]["header"] == {
        "request_api_key": 79,
        "request_api_version": 1,
        "correlation_id": 12,
        "client_id": "c1",
    }
    assert done.json[0]["body"] == ACKNOWLEDGE


def test_a_header_of_another_message_is_refused(kshark: Run, tmp_path: Path) -> None:
    framed = struct.pack(">hhih", 78, 1, 12, 2) + b"c1\0" + ENCODED
    done = kshark("decode", "ShareAcknowledge", 1, "request", body(tmp_path, framed), "--header")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("kshark: the header names API 78 version 1, not ShareAcknowledge version 1")


def test_a_damaged_body_shows_what_was_read_and_says_where_it_ends(kshark: Run, tmp_path: Path) -> None:
    done = kshark("decode", "ShareAcknowledge", 1, "request", body(tmp_path, ENCODED[:-5]))
    assert done.code == 2
    assert done.json[0]["group_id"] == "g"
    assert "at byte" in done.err
    assert "topics" in done.err


def test_bytes_behind_the_body_are_said(kshark: Run, tmp_path: Path) -> None:
    done = kshark("decode", "ShareAcknowledge", 1, "request", body(tmp_path, ENCODED + b"\x07"))
    assert done.code == 2
    assert done.json == [ACKNOWLEDGE]
    assert "TRAILING_BYTES" in done.err


def test_half_a_byte_is_missing(kshark: Run, tmp_path: Path) -> None:
    assert (
        kshark("decode", "79", "1", "request", body(tmp_path, b"02670")).err
        == "kshark: 5 hex digits: half of a byte is missing\n"
    )


def test_a_refused_version_is_laid_out_as_version_0(kshark: Run, tmp_path: Path) -> None:
    refused = face.encode(18, 0, "response", {"error_code": 35, "api_keys": []})
    assert kshark("decode", "ApiVersions", 3, "response", body(tmp_path, refused)).json == [
        {"error_code": 35, "api_keys": []}
    ]


def test_an_api_tells_its_releases_and_its_place_in_a_share_groups_life(kshark: Run) -> None:
    lines = kshark("explain", "ShareFetch").lines
    assert "  3.9 to 4.0  0  0 if unstable versions are enabled" in lines
    assert "  4.2 to 4.4  1-2" in lines
    assert any(
        line.startswith("   6  member to partition leader: with epoch 0 it opens a share session") for line in lines
    )
    assert "      after Metadata, before FindCoordinator and ReadShareGroupState" in lines
    assert "  4.0 to 4.4  not supported" in kshark("explain", "LeaderAndIsr").lines
    assert "in a share group's life" not in kshark("explain", "OffsetCommit").out


def test_an_api_says_what_it_is_for(kshark: Run) -> None:
    assert kshark("explain", "DeleteTopics").lines[1] == "An administrator deletes topics."


def test_the_whole_life_of_a_share_group_can_be_read(kshark: Run) -> None:
    lines = kshark("explain", "life").lines
    assert lines[1] == "   1  ApiVersions  member to any broker"
    assert len(lines) == 1 + 2 * 16


def test_bytes_say_what_they_hold(kshark: Run) -> None:
    told = " ".join(kshark("explain", "JoinGroup", "Envelope", "Fetch").out.split())
    assert (
        "metadata bytes the member's subscription, for the assignor of that name · holds ConsumerProtocolSubscription"
        in told
    )
    assert "response_data bytes? answer to the client's request; null with an error · holds a whole response" in told
    assert "opened in Kafka's own topics" in told


@pytest.mark.parametrize("name", ["share_session_epoch", "ShareSessionEpoch", "kafka.share_session_epoch"])
def test_a_field_tells_which_apis_have_it(kshark: Run, name: str) -> None:
    assert kshark("explain", name).lines == [
        "share_session_epoch  in 2 structures",
        "  ShareFetch        request  0-2  share_session_epoch  int32  0 opens a session, -1 closes it",
        "  ShareAcknowledge  request  0-2  share_session_epoch  int32  -1 closes the session",
        "kafka.share_session_epoch is the name for -e and -Y",
    ]


def test_a_field_tells_its_versions_and_where_it_is_nested(kshark: Run) -> None:
    done = kshark("explain", "acknowledgement_batches.first_offset", "leader_epoch", "kafka.latency_ms")
    lines = [" ".join(line.split()) for line in done.lines]
    assert (
        "ShareFetch request 0-2 topics.partitions.acknowledgement_batches.first_offset int64 first offset of the range"
        in lines
    )
    assert any(line.startswith("OffsetCommitValue inside bytes 3-4 leader_epoch int32 default -1 · ") for line in lines)
    assert "kafka.latency_ms milliseconds from the request's last byte to the response's first" in lines


def test_structures_and_enumerations_are_known_by_name(kshark: Run) -> None:
    done = kshark("explain", "OffsetCommitValue", "acloperation", "TransactionState")
    assert "OffsetCommitValue  inside bytes · versions 0-4" in done.lines
    assert "  12  IDEMPOTENT_WRITE" in done.lines
    assert "  3  PREPARE_ABORT" in done.lines


@pytest.mark.parametrize(
    ("name", "close"), [("shareFech", "ShareFetch"), ("AclOperatoin", "AclOperation"), ("frame.numbr", "frame.number")]
)
def test_what_comes_close_is_named(kshark: Run, name: str, close: str) -> None:
    done = kshark("explain", name)
    assert done.code == 2
    assert f'nothing is called "{name}"; did you mean "{close}"?' in done.err


def test_tables_have_queries_to_begin_with(kshark: Run) -> None:
    done = kshark("explain", "tables", "--sql")
    views = [line for line in done.lines if "read_parquet" in line]
    view = "CREATE OR REPLACE TEMP VIEW sessions AS SELECT * FROM read_parquet('sessions/**/*.parquet');"
    assert view in views

    spark = kshark("explain", "tables", "--sql", "spark")
    assert [line for line in spark.lines if "USING parquet" not in line] == [
        line for line in done.lines if line not in views
    ]
    assert spark.out.count("USING parquet") == len(views)


@pytest.mark.parametrize("words", [["fields", "--sql"], ["--sql"], ["tables", "--sql", "oracle"]])
def test_queries_are_about_the_tables_for_two_engines(kshark: Run, words: list[str]) -> None:
    done = kshark("explain", *words)
    assert (done.code, done.out, "--sql" in done.err) == (2, "", True)
    assert len(done.err.splitlines()) == 1


def test_an_api_s_rights(kshark: Run) -> None:
    lines = kshark("explain", "ShareGroupHeartbeat").lines
    at = next(at for at, line in enumerate(lines) if line.startswith("rights"))
    assert lines[at + 1 : at + 4] == ["  READ on GROUP", "  DESCRIBE on TOPIC", ""]
    assert not any(line.startswith("rights") for line in kshark("explain", "ApiVersions").lines)

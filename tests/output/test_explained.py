"""Entries of the catalogue, errors, APIs, tables: what `kshark explain` prints is the data itself."""

from __future__ import annotations

from dissectors.enums import ErrorCode
from dissectors.errors import RETRIABLE, SHARE_GROUPS
from kshark.conditions.fields import COMMON
from kshark.output.catalogue import CODES
from kshark.output.entries import catalogue_lines, code_lines, error_lines, field_lines, table_lines
from kshark.output.layouts import api_lines
from kshark.output.spans import plain
from kshark.tables import TABLES
from tests.output.messages import REGISTRY


def text(lines: object) -> str:
    return "\n".join(plain(line) for line in lines)  # type: ignore[attr-defined]


def test_a_finding_says_who_may_be_blamed() -> None:
    assert text(code_lines(CODES["EPOCH_SKIP_AHEAD"])).splitlines() == [
        "EPOCH_SKIP_AHEAD  rule 20 · session · finding",
        "An epoch beyond the one due: a request was counted that the broker never accepted.",
        "",
        "judges     a share session of a member with a broker (KIP-932)",
        "verdict    violation where the capture proves it, else EPOCH_REFUSED",
        "may blame  client",
        "causes     skip_ahead, skip_after_timeout",
        "exit code  1 on a violation",
        "reference  KIP-932; Kafka: ShareSessionHandler",
    ]


def test_a_rule_of_one_exchange_tells_its_condition() -> None:
    told = text(code_lines(CODES["ACK_IN_INITIAL_FETCH"]))
    assert "when       share_session_epoch == 0 and some partition with number of acknowledgement batches > 0" in told


def test_a_weird_says_how_bad_it_is() -> None:
    assert "severity   warn" in text(code_lines(CODES["STREAM_GAP"]))


def test_an_error_says_who_sends_it_and_why() -> None:
    told = text(error_lines(ErrorCode.INVALID_SHARE_SESSION_EPOCH))
    assert told.startswith("123 INVALID_SHARE_SESSION_EPOCH  retriable\n\nShareFetch, ShareAcknowledge, top level\n")
    assert "epoch 0: an acknowledgement cannot open a session" in told
    assert "open a new session" in told
    assert text(error_lines(ErrorCode.NONE)) == "0 NONE  no error"


def test_every_error_and_every_code_can_be_explained() -> None:
    for error in ErrorCode:
        assert text(error_lines(error)).startswith(f"{error.value} {error.name}")
    for entry in CODES.values():
        assert entry.text[:20] in text(code_lines(entry))
    listed = text(catalogue_lines())
    assert all(f"  {code} " in listed for code in CODES)


def test_share_group_errors_are_told_apart() -> None:
    assert ErrorCode.SHARE_SESSION_NOT_FOUND in RETRIABLE
    assert ErrorCode.INVALID_RECORD_STATE not in RETRIABLE
    assert all(SHARE_GROUPS.values())


def test_an_api_shows_its_fields_as_they_are_nested() -> None:
    api = REGISTRY.api(92)
    assert api is not None
    assert text(api_lines(api)).splitlines() == [
        "DeleteShareGroupOffsets  API 92 · versions 0 · flexible all · KIP-932",
        "",
        "request  header version 2",
        "  group_id      string",
        "  topics        [struct]",
        "    topic_name  string",
        "",
        "response  header version 1",
        "  throttle_time_ms  int32",
        "  error_code        int16     ErrorCode",
        "  error_message     string?",
        "  responses         [struct]",
        "    topic_name      string",
        "    topic_id        uuid",
        "    error_code      int16     ErrorCode",
        "    error_message   string?",
    ]


def test_versions_tags_and_defaults_of_a_field_are_told() -> None:
    fetch = REGISTRY.api(1)
    assert fetch is not None
    told = " ".join(text(api_lines(fetch)).split())
    assert "cluster_id string? versions 12+ · tag 0" in told
    assert "max_bytes int32 versions 3+ · default 2147483647" in told
    assert "request header version 1, in flexible versions 2" in told


def test_every_field_of_every_api_is_shown() -> None:
    for key in REGISTRY.names():
        api = REGISTRY.api(key)
        if api is not None:
            told = text(api_lines(api))
            for layout in (api.request, api.response):
                assert all(f"  {field.name} " in told for field in layout.root.fields)


def test_tables_and_fields_are_listed() -> None:
    told = text(table_lines())
    for table in TABLES.values():
        assert f"{table.name}  one row per {table.rows}" in told
        assert all(f"  {column.name} " in told for column in table.columns)
    assert all(f"  {name} " in text(field_lines()) for name in COMMON)

"""Entries of the catalogue, errors, APIs, tables: what `kshark explain` prints is the data itself."""

from __future__ import annotations

import re

import pytest

from kshark.analysis import RULES
from kshark.conditions.fields import COMMON
from kshark.output.catalogue import CODES
from kshark.output.entries import catalogue_lines, cause_lines, code_lines, field_lines, table_lines
from kshark.output.error_entries import error_lines
from kshark.output.layouts import api_lines
from kshark.output.rule_table import rule_lines
from kshark.output.spans import plain
from kshark.tables import TABLES
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.error_causes import CAUSES
from kshark_dissectors.errors import RETRIABLE
from tests.output.messages import REGISTRY


def text(lines: object) -> str:
    return "\n".join(plain(line) for line in lines)  # type: ignore[attr-defined]


def test_a_finding_says_who_may_be_blamed() -> None:
    assert text(code_lines(CODES["EPOCH_SKIP_AHEAD"])).splitlines() == [
        "EPOCH_SKIP_AHEAD  rule 20 · session · finding",
        "The epoch is too high: the client counted a request that the broker never accepted.",
        "",
        "must be    The next request has the epoch after the last accepted one.",
        "advice     Count a request when its answer arrives, not when you send it. After a request without an",
        "           answer, open a new session: send a ShareFetch with epoch 0.",
        "judges     a share session of a member with a broker (KIP-932)",
        "verdict    violation if the capture proves it, otherwise EPOCH_REFUSED",
        "may blame  client",
        "exit code  1 on a violation",
        "reference  KIP-932; Kafka: ShareSessionHandler",
        "rests on   the order of packets of two connections; kshark's limit WAITING_STEPS, which was not",
        "           reached",
        "",
        "causes",
        "  skip_ahead          the client counted a request that the broker never accepted",
        "  skip_after_timeout  the client counted a request without an answer as accepted",
        "",
        "wrong                               right",
        "  ShareFetch epoch 0 → 0              ShareFetch epoch 0 → 0",
        "  ShareFetch epoch 1 → …              ShareFetch epoch 1 → …",
        "  on B: ShareFetch epoch 3 → 123      on B: ShareFetch epoch 0 → 0",
        "a request → the error code of its response; … is no response yet; A and B are connections",
    ]


@pytest.mark.parametrize(
    ("code", "otherwise"),
    [
        ("EPOCH_SKIP_AHEAD", "EPOCH_REFUSED"),
        ("USE_AFTER_FINAL", "SESSION_UNKNOWN"),
        ("DOUBLE_ACK", "ACK_REFUSED"),
        ("MEMBER_EPOCH_AHEAD", "MEMBER_REFUSED"),
        ("OVERLAPPING_ACQUISITION", "unknown"),
    ],
)
def test_what_is_not_proved_is_told_otherwise(code: str, otherwise: str) -> None:
    assert f", otherwise {otherwise} may blame " in " ".join(text(code_lines(CODES[code])).split())


def test_exchanges_that_are_too_wide_stand_one_below_the_other() -> None:
    lines = text(code_lines(CODES["ACK_TYPES_EMPTY"])).splitlines()
    wrong = lines.index("wrong")
    assert lines[wrong:-1] == [
        "wrong",
        "  ShareFetch epoch 0 → 0, offsets 0-9",
        "  ShareAcknowledge epoch 1, types none for 0-1 → 0, t[0] 42",
        "",
        "right",
        "  ShareFetch epoch 0 → 0, offsets 0-9",
        "  ShareAcknowledge epoch 1, types 1 for 0-1 → 0",
    ]


def test_a_cause_names_the_rules_that_it_may_break() -> None:
    assert text(cause_lines("overlap")).splitlines() == [
        "overlap  a cause",
        "it begins before the previous batch ends",
        "",
        "ACK_BATCHES_OVERLAP  Acknowledgement batches overlap, or are not sorted by offset.",
        "advice     Sort and merge the offsets before you build the batches.",
    ]
    told = text(cause_lines("after_lock"))
    assert "\nACK_AFTER_LOCK_TIMEOUT  " in told
    assert "\nRENEW_REFUSED  " in told


def test_a_rule_of_one_exchange_tells_its_condition() -> None:
    told = text(code_lines(CODES["ACK_IN_INITIAL_FETCH"]))
    assert "when       ShareFetch with share_session_epoch == 0 and some partition with number of\n" in told
    told = text(code_lines(CODES["OFFSETS_ADMIN_NON_EMPTY"]))
    assert (
        "when       AlterShareGroupOffsets or DeleteShareGroupOffsets, if the response has error_code == 68\n" in told
    )


def test_no_line_of_a_page_ends_in_the_middle_of_a_sentence() -> None:
    for rule in RULES:
        (verdict,) = re.findall(r"^verdict    (.*(?:\n {11}.*)*)$", text(code_lines(rule)), re.M)
        assert not verdict.endswith(("else", "or", ",")), rule.code


def test_a_weird_says_how_bad_it_is() -> None:
    assert "severity   warn" in text(code_lines(CODES["BYTES_SKIPPED"]))


@pytest.mark.parametrize("code", CODES)
def test_each_code_says_what_to_do(code: str) -> None:
    assert "\nadvice     " in text(code_lines(CODES[code]))


def test_a_weird_and_the_rule_that_judges_it_name_each_other() -> None:
    assert "judged as  UNDECODABLE_BODY" in text(code_lines(CODES["VARINT_TOO_LONG"]))
    assert "A varint longer than its type allows." in text(code_lines(CODES["UNDECODABLE_BODY"])).replace(
        "\n" + 11 * " ", " "
    )


def test_an_error_says_who_sends_it_and_why() -> None:
    told = text(error_lines(ErrorCode.INVALID_SHARE_SESSION_EPOCH, REGISTRY))
    assert told.startswith(
        "123 INVALID_SHARE_SESSION_EPOCH  retriable\nThe epoch is not the one that the share session expects.\n\n"
    )
    assert "\n\nShareFetch, ShareAcknowledge, top level\n" in told
    assert "epoch 0: an acknowledgement cannot open a session" in told
    assert "open a new session" in told
    assert text(error_lines(ErrorCode.NONE, REGISTRY)) == "0 NONE  no error"


def test_every_error_and_every_code_can_be_explained() -> None:
    for error in ErrorCode:
        assert text(error_lines(error, REGISTRY)).startswith(f"{error.value} {error.name}")
    for entry in CODES.values():
        assert entry.text[:20] in text(code_lines(entry))
    listed = text(catalogue_lines(None))
    assert all(f"  {code} " in listed for code in CODES)


def test_rules_are_a_table() -> None:
    lines = text(rule_lines(140)).splitlines()
    assert lines[0] == "rule  code                              judges      may blame       verdict  text of a finding"
    found = next(
        at
        for at, line in enumerate(lines)
        if "  25  SESSION_UNKNOWN                   session     broker          VUN " in line
    )
    assert lines[found].endswith("      The broker has no session for this member. The cause says what")
    assert lines[found + 1].split() == ["ended", "or", "prevented", "it."]
    assert "  24  ACK_IN_INITIAL_FETCH              exchange    client          VU       A ShareFetch" in text(
        rule_lines(None)
    )


def test_what_rules_say_stands_below_where_there_is_no_room_beside() -> None:
    lines = text(rule_lines(80)).splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line.endswith(" ")] == []
    found = lines.index("  20  EPOCH_SKIP_AHEAD                  session     client          V")
    assert lines[found + 1 : found + 3] == [
        "      The epoch is too high: the client counted a request that the broker never",
        "      accepted.",
    ]


@pytest.mark.parametrize("error", [error for error in ErrorCode if error is not ErrorCode.NONE], ids=str)
def test_each_error_has_a_meaning(error: ErrorCode) -> None:
    name, meaning = text(error_lines(error, REGISTRY)).splitlines()[:2]
    assert name.startswith(f"{error.value} {error.name}  ")
    assert meaning[0].isupper() or meaning.startswith("acks")


def test_share_group_errors_are_told_apart() -> None:
    assert ErrorCode.SHARE_SESSION_NOT_FOUND in RETRIABLE
    assert ErrorCode.INVALID_RECORD_STATE not in RETRIABLE
    assert all(CAUSES.values())


def test_an_api_shows_its_fields_as_they_are_nested() -> None:
    api = REGISTRY.api(92)
    assert api is not None
    throttled = "how long a quota delays the client; since Kafka 2.0 the client waits, not the answer"
    assert text(api_lines(api)).splitlines() == [
        "DeleteShareGroupOffsets  API 92 · versions 0 · flexible all · KIP-932",
        "",
        "request  header version 2",
        "  group_id      string    name of the group (setting group.id)",
        "  topics        [struct]  topics to take out of the group, which must be empty",
        "    topic_name  string    name of the topic",
        "",
        "response  header version 1",
        f"  throttle_time_ms  int32     {throttled}",
        "  error_code        int16     ErrorCode",
        "  error_message     string?   a sentence about the error, for people; null if the broker has none",
        "  responses         [struct]  one entry for each topic",
        "    topic_name      string    name of the topic",
        "    topic_id        uuid      id of the topic: a new topic of the same name has another one",
        "    error_code      int16     ErrorCode",
        "    error_message   string?   a sentence about the error, for people; null if the broker has none",
    ]


def test_an_api_fits_into_a_terminal() -> None:
    api = REGISTRY.api(92)
    assert api is not None
    lines = text(api_lines(api, width=60)).splitlines()
    assert max(map(len, lines[2:])) <= 60
    assert lines[3:7] == [
        "  group_id      string    name of the group (setting",
        "                          group.id)",
        "  topics        [struct]  topics to take out of the group,",
        "                          which must be empty",
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

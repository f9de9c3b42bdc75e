"""`kshark explain KIP-1222`, and of tickets, settings and numbers of rules; pages as JSON."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kshark.analysis.facts.bases import Setting
from kshark.output.catalogue import EVERY_RULE
from kshark.output.kip_entries import rules_of
from kshark.output.mentions import settings, tickets
from kshark_dissectors.kips import KIPS
from tests.cli.command import Run
from tests.shared import ROOT, pythonpath


def test_a_proposal_says_what_it_brought_and_which_rules_rest_on_it(kshark: Run) -> None:
    assert kshark("explain", "KIP-1222").lines == [
        "KIP-1222  Kafka 4.2",
        "A member of a share group renews the lock of records that it still works on.",
        "",
        "APIs",
        "  ShareFetch        version 2 · since Kafka 4.2 · new: is_renew_ack",
        "  ShareAcknowledge  version 2 · since Kafka 4.2 · new: is_renew_ack, acquisition_lock_timeout_ms",
        "",
        "rules  4 that rest on it",
        "  RENEW_WITHOUT_FLAG  A request renews locks without is_renew_ack.",
        "  RENEW_FLAG_MISUSE   A request sets is_renew_ack, but renews no locks or also asks for records.",
        "  RECORDS_ON_RENEW    A request that only renews locks receives records.",
        "  RENEW_REFUSED       The broker refused to renew locks.",
        "",
        "changes    KIP-932",
    ]


@pytest.mark.parametrize("name", ["KIP-932", "kip932", "KIP 932"])
def test_a_proposal_names_its_releases_apis_errors_and_rules(kshark: Run, name: str) -> None:
    done = kshark("explain", name)
    assert done.code == 0
    assert done.lines[0] == "KIP-932  Kafka 4.0 (early access), 4.1 (preview), 4.2 (ready for production)"
    for line in (
        "  ShareFetch                  API 78 · since Kafka 4.1",
        "  ShareSnapshotValue",
        "  123 INVALID_SHARE_SESSION_EPOCH",
    ):
        assert line in done.lines
    assert "EPOCH_SKIP_AHEAD" in done.out


@pytest.mark.parametrize("name", ["KIP-9", "KIP-99999"])
def test_a_proposal_without_the_wire_is_said_to_be_one(kshark: Run, name: str) -> None:
    done = kshark("explain", name)
    assert (done.code, done.out, done.err) == (
        2,
        "",
        f"kshark: {name} is not among the proposals that changed the protocol (kshark explain kips lists those that "
        "are)\n",
    )


@pytest.mark.parametrize(
    "name", ["KIP-" + "9" * 5000, "9" * 5000, "KIP-", "KIP", "", "___", "\x1b[31mKIP-932", "KIP-932\n"]
)
def test_a_name_that_is_none_is_one_sentence(kshark: Run, name: str) -> None:
    done = kshark("explain", name)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith('kshark: nothing is called "')
    assert len(done.err.splitlines()) == 1
    assert "\x1b" not in done.err


def test_all_proposals_are_listed(kshark: Run) -> None:
    lines = kshark("explain", "kips").lines
    assert any(line.startswith("  KIP-848   3.7 to 4.0  ") for line in lines)
    assert any(line.startswith("  KIP-98    0.11  ") for line in lines)


def test_an_error_names_the_rules_that_explain_it(kshark: Run) -> None:
    (error,) = kshark("explain", "123", "-T", "json").json
    assert {"EPOCH_REPLAY", "EPOCH_SKIP_AHEAD", "TWO_COUNTERS"} <= set(error["rules"])
    assert "rules      SESSION_UNKNOWN, USE_AFTER_FINAL, " in kshark("explain", "122").out


def test_one_rule_rests_on_a_proposal(kshark: Run) -> None:
    number = next(number for number in KIPS if len(rules_of(number)) == 1)
    assert "rules  1 that rests on it" in kshark("explain", f"KIP-{number}").lines


def test_an_api_names_the_proposals_that_changed_it(kshark: Run) -> None:
    lines = kshark("explain", "ShareFetch", "Fetch").lines
    assert "  KIP-1206  version 2 · since Kafka 4.2 · new: share_acquire_mode" in lines
    versions = [int(line.split()[2].rstrip("+")) for line in lines if line.startswith("  KIP-")][2:]
    assert versions == sorted(versions)


def test_a_rule_with_the_name_of_an_error_is_shown_before_it(kshark: Run) -> None:
    lines = kshark("explain", "PRODUCER_FENCED").lines
    assert lines[0].startswith("PRODUCER_FENCED  rule ")
    assert lines[lines.index("90 PRODUCER_FENCED  not retriable") - 1] == ""


def test_an_error_names_its_apis_and_its_proposal(kshark: Run) -> None:
    told = " ".join(kshark("explain", "124", "110", "4", "-1").out.split())
    assert (
        "sent by ShareFetch, ShareAcknowledge, InitializeShareGroupState, WriteShareGroupState, DeleteShareGroupState "
        "rules STATE_EPOCH_FENCED brought by KIP-932" in told
    )
    assert "sent by OffsetCommit 7+, ConsumerGroupHeartbeat, ShareGroupHeartbeat, StreamsGroupHeartbeat" in told
    assert "sent by no API of Kafka 3.8 and later" in told
    assert "sent by every API" in told


def test_an_api_is_an_object(kshark: Run) -> None:
    api, error, proposal = kshark("explain", "ShareGroupHeartbeat", "121", "KIP-227", "-T", "json").json
    assert (api["api_key"], api["api"], api["versions"], api["kip"]) == (76, "ShareGroupHeartbeat", "0-1", "KIP-932")
    assert {row["error"]: row["since_version"] for row in api["errors"]}["TOPIC_AUTHORIZATION_FAILED"] == 1
    (refused,) = [row for row in api["errors"] if row["error_code"] == 30]
    assert refused["causes"] == [{"level": "top level", "cause": "no READ on the group"}]
    (epoch,) = [row for row in api["request"] if row["field"] == "member_epoch"]
    assert (epoch["type"], epoch["meaning"]) == ("int32", "0 joins the group, -1 leaves it")
    assert api["rights"] == [{"operation": "READ", "resource": "GROUP"}, {"operation": "DESCRIBE", "resource": "TOPIC"}]
    assert api["releases"]["4.4"] == "1"
    assert api["changed_by"] == []
    assert [sender["api"] for sender in error["apis"]] == ["ShareFetch", "ShareAcknowledge"]
    assert error["retriable"] is False
    assert proposal["apis"][0]["fields"] == ["error_code", "session_id", "session_epoch", "forgotten_topics_data"]
    assert [row["error_code"] for row in proposal["errors"]] == [70, 71]


def test_other_commands_do_not_load_what_only_explain_shows() -> None:
    code = (
        "import sys; from kshark.cli import main\n"
        "main(['check', 'captures/share-loss.pcap', '-q'])\n"
        "print([name for name in ('kips', 'meanings', 'api_errors', 'error_causes', 'other_names')\n"
        "       if f'kshark_dissectors.{name}' in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PYTHONPATH": pythonpath(), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "[]"


def test_a_ticket_leads_to_its_rules_and_what_to_do(kshark: Run) -> None:
    assert kshark("explain", "kafka-19950").lines == [
        "KAFKA-19950  https://issues.apache.org/jira/browse/KAFKA-19950",
        "",
        "rules  1 that names it",
        "  SESSION_KILLED_BY_OLD_CONNECTION  A session was reopened on a new connection, and ended when the old "
        "connection closed.",
        "  → Upgrade the brokers to 4.2. Until then, open the new session after the old connection is closed. After "
        "error 122, open the session again.",
    ]
    assert kshark("explain", "twmb/franz-go#922").lines[0].endswith("  https://github.com/twmb/franz-go/issues/922")


@pytest.mark.parametrize("ticket", tickets())
def test_every_ticket_that_a_finding_prints_is_explained(kshark: Run, ticket: str) -> None:
    done = kshark("explain", ticket)
    assert (done.code, done.err) == (0, "")
    assert all(rule.code in done.out for rule in EVERY_RULE if ticket in rule.tickets)


def test_a_ticket_that_no_rule_names_is_not_made_up(kshark: Run) -> None:
    done = kshark("explain", "KAFKA-1")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith('kshark: nothing is called "KAFKA-1"')


def test_a_setting_leads_to_the_rules_that_rest_on_it_or_advise_it(kshark: Run) -> None:
    lines = kshark("explain", "group.share.record.lock.duration.ms").lines
    assert lines[0] == "group.share.record.lock.duration.ms  13 rules of kshark"
    assert "rules  12 resting on it" in lines
    assert (
        "  group.share.record.lock.duration.ms, which answers to ShareFetch show since version 1; before, its range of "
        "1 s to 1 h counts" in lines
    )
    assert any(line.startswith("  NEVER_ACKED               Records were acquired, but neither ") for line in lines)
    assert "rules  1 with advice about it" in lines
    assert lines[-1] == "see also   share.record.lock.duration.ms"


@pytest.mark.parametrize("name", ["session.timeout.ms", "Max.Poll.Interval.Ms"])
def test_a_setting_of_a_client_is_found_in_advice(kshark: Run, name: str) -> None:
    done = kshark("explain", name)
    assert done.lines[0].startswith(f"{name.lower()}  ")
    assert "with advice about it" in done.out
    assert "  REBALANCE_STORM " in done.out


def test_every_setting_of_the_rows_has_a_page_and_nothing_else_is_one(kshark: Run) -> None:
    for rule in EVERY_RULE:
        for basis in rule.rests_on:
            assert not isinstance(basis, Setting) or " " in basis.name or basis.name in settings()
    assert {name for name in settings() if "." not in name or name.endswith((".sh", ".log", ".md", ".txt"))} == set()
    for name in settings():
        assert kshark("explain", name).code == 0
    assert 'did you mean "session.timeout.ms"' in kshark("explain", "session.timout.ms").err


@pytest.mark.parametrize("words", [["rule 28"], ["rule", "28"], ["Rule-28"]])
def test_a_rule_is_found_by_its_number(kshark: Run, words: list[str]) -> None:
    assert kshark("explain", *words).lines[0].startswith("SESSION_KILLED_BY_OLD_CONNECTION  rule 28 ")


def test_a_number_alone_is_an_error_and_names_what_else_it_may_be(kshark: Run) -> None:
    lines = kshark("explain", "28").lines
    assert lines[0].startswith("28 INVALID_COMMIT_OFFSET_SIZE")
    assert lines[-2:] == [
        "API 28 is TxnOffsetCommit: kshark explain TxnOffsetCommit",
        "rule 28 is SESSION_KILLED_BY_OLD_CONNECTION: kshark explain SESSION_KILLED_BY_OLD_CONNECTION",
    ]


def test_two_rules_with_one_number_are_both_shown_and_no_rule_is_an_error(kshark: Run) -> None:
    heads = [line.split()[0] for line in kshark("explain", "rule 69").lines if "  rule 69 " in line]
    assert heads == ["REJECT_RATE", "RELEASE_STORM"]
    done = kshark("explain", "rule", "999", "123")
    assert done.code == 2
    assert done.err.startswith("kshark: no rule has the number 999; they are numbered from 1 to ")
    assert kshark("explain", "rule").code == 2

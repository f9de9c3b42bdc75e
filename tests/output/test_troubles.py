"""Who is in trouble, a paragraph each."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from kshark import limits
from kshark.model import Finding
from kshark.output.spans import plain
from kshark.output.troubles import Troubles
from tests.output.test_findings import NOON_NS, finding


def told(*found: Finding, width: int | None = None) -> list[str]:
    troubles = Troubles()
    for each in found:
        troubles.add(each)
    return [plain(line) for line in troubles.lines(width)]


def of(member_id: str | None, **changed: Any) -> Finding:
    return finding(member_id=member_id, client_id=None if member_id is None else f"client-{member_id}", **changed)


def test_a_paragraph_says_what_how_often_since_when_and_what_to_do() -> None:
    later: dict[str, Any] = {"packet": 90500, "time_ns": NOON_NS + 65 * 10**9}
    network: dict[str, Any] = {"code": "EPOCH_REPLAY", "blame": "network", **later}
    assert told(
        finding(),
        finding(**later),
        finding(**network),
        finding(code="NO_RECOVERY", verdict="unknown"),
        finding(verdict="note"),
    ) == [
        "group billing · client billing-3: 3 violations of 2 rules, 12:03:07.412 to 12:04:12.412",
        "  member JUkzTnp0Qm6-aaaaaaaaaa · broker 10.0.1.5:9092 · packets 90412 to 90500",
        "  2 × EPOCH_SKIP_AHEAD  The epoch is too high: the client counted a request that the broker never accepted.",
        "      → Count a request when its answer arrives, not when you send it. After a request without an answer, "
        "open a new session: send a ShareFetch with epoch 0.",
        "  1 × EPOCH_REPLAY (by the network)  The last used epoch came again: the same request was sent twice.",
        "      → Never send a request again with the same epoch. After a lost answer, or on a new connection, open a "
        "new session: send a ShareFetch with epoch 0.",
        "  not proved: NO_RECOVERY",
        "",
    ]


def test_notes_put_nobody_in_trouble() -> None:
    assert told(finding(verdict="note")) == []


def test_what_is_not_proved_is_said_to_be_so() -> None:
    head, where, rule, *_ = told(finding(code="NO_RECOVERY", verdict="unknown"))
    assert head == "group billing · client billing-3: 1 finding not proved by the capture, 12:03:07.412"
    assert where.endswith(" · packet 90412")
    assert rule.startswith("  1 × NO_RECOVERY  ")


def test_the_most_frequent_rules_have_advice_and_the_others_are_named() -> None:
    codes = ["EPOCH_STALE", "EPOCH_REPLAY", "EPOCH_NEGATIVE", "EPOCH_SKIP_AHEAD", "TWO_COUNTERS"]
    lines = told(*(finding(code=code) for times, code in enumerate(codes, 1) for _ in range(times)))
    assert [line.split()[2] for line in lines if " × " in line] == [
        "TWO_COUNTERS",
        "EPOCH_SKIP_AHEAD",
        "EPOCH_NEGATIVE",
    ]
    assert lines[-2] == "  also EPOCH_REPLAY 2, EPOCH_STALE"


def test_the_worst_comes_first_and_the_last_are_counted() -> None:
    found = [of("m", group_id=f"g{number}") for number in range(8) for _ in range(number + 1)]
    lines = told(*found)
    heads = [line for line in lines if line.startswith("group ")]
    assert [line.split()[1] for line in heads] == ["g7", "g6", "g5", "g4", "g3"]
    assert lines[-2:] == ["3 more in trouble, with 6 violations", ""]


def test_a_group_is_told_as_one_where_many_of_it_are_in_trouble() -> None:
    three = told(*map(of, "abc"))
    assert [line for line in three if line.startswith("group ")] == [
        f"group billing · client client-{name}: 1 violation of 1 rule, 12:03:07.412" for name in "abc"
    ]
    head, where, *_ = told(*map(of, "abcde"), of("a", code="EPOCH_STALE", packet=90500))
    assert (
        head == "group billing · 5 members, clients client-a, client-b, client-c and 2 more: 6 violations of 2 rules, "
        "12:03:07.412"
    )
    assert where == "  broker 10.0.1.5:9092 · packets 90412 to 90500"


def test_who_is_in_no_group_has_the_name_of_its_client() -> None:
    nobody: dict[str, Any] = {"group_id": None, "member_id": None}
    assert told(finding(**nobody))[0].startswith("client billing-3: 1 violation of 1 rule")
    assert told(finding(**nobody, client_id=None))[0].startswith("client 10.0.4.17: 1 violation of 1 rule")


def test_foreign_names_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in "".join(told(finding(group_id="\x1b[2J", client_id="\x1b]0;x\x07", member_id="\x1b[1m")))


def test_it_fits_the_terminal() -> None:
    for width in (60, 80, 140):
        assert all(len(line) <= width for line in told(finding(), finding(code="EPOCH_REPLAY"), width=width))


def test_those_beyond_the_limit_are_told_together() -> None:
    with patch.object(limits, "STATISTICS_ROWS", 2):
        lines = told(*(of(name, group_id=name) for name in "abcdd"))
    heads = [line for line in lines if ": " in line and not line.startswith(" ")]
    assert heads[0] == "all others, clients client-c, client-d: 3 violations of 1 rule, 12:03:07.412"
    assert len(heads) == 3

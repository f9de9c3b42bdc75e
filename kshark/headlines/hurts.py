"""Headlines about who is hurt: members that get no records, and members whose acknowledgements do not count."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from msgspec import Struct, field

from kshark.analysis import MemberKey, Outcomes
from kshark.error_names import ERROR_NAMES
from kshark.headlines.alike import few
from kshark.headlines.headline import Headline
from kshark.model import Finding
from kshark.units import counted, duration, number, shortened
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.errors import REMEDY

#: With fewer fetches a member's outcomes may be chance.
_FEW: Final = 3
#: A member lacks records after so many fetches in so much time, while others of its group got so many.
_FETCHES: Final = 10
_LONG_NS: Final = 10_000_000_000
_RECORDS: Final = 100
#: Refused acknowledgements hurt if they are one in this many.
_MANY: Final = 10
#: The reason why acknowledgements are refused, by the rule that explains most refusals, and what helps.
_REASONS: Final = {
    "ACK_AFTER_LOCK_TIMEOUT": (
        "because its locks had expired: others receive these records again",
        "Take fewer records at a time, renew locks (Kafka 4.2), or raise group.share.record.lock.duration.ms.",
    ),
}
#: The same by the error code that refuses most of them, where no rule explains it.
_OF_ERRORS: Final[Mapping[int, tuple[str, str]]] = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: (
        "because another broker leads the partition",
        "Fetch from the leader that the answers name, and acknowledge there.",
    ),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ("", "Grant this user READ on the topic (kafka-acls)."),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ("", "Grant this user READ on the group (kafka-acls)."),
    ErrorCode.UNKNOWN_TOPIC_ID: (
        "because the broker knows no topic with this id",
        "Look for the deletion of the topic (kshark events), and subscribe to the new one.",
    ),
    ErrorCode.INVALID_RECORD_STATE: ("", "kshark deliveries shows the state of each record, and who held it then."),
    ErrorCode.FENCED_STATE_EPOCH: (
        "because the share coordinator has newer state of the partition: the records are delivered again",
        "Look for a change of its leader, or a reset of its offsets, before this (kshark events).",
    ),
}

#: What to do about members that get no records.
_OF_LACKS: Final = {
    "throttled": "Raise the quota of this user or client id (kafka-configs: consumer_byte_rate, request_percentage), "
    "or fetch less often.",
    "empty": "Look who holds the records (kshark deliveries --holders). More members than the partitions can feed get "
    "nothing.",
}

#: Errors of whole requests, which rules about sessions explain.
_OF_SESSIONS: Final[frozenset[int]] = frozenset(
    {
        ErrorCode.INVALID_REQUEST,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)


class OfMember(Struct):
    """The findings about one member: whether it broke a rule, and by code the records that findings explain."""

    breaks_rules: bool = False
    records: Counter[str] = field(default_factory=Counter)

    def add(self, finding: Finding) -> None:
        self.breaks_rules |= finding.verdict == "violation" and finding.blame == "client"
        if finding.code in _REASONS and finding.first_offset is not None and finding.last_offset is not None:
            self.records[finding.code] += finding.last_offset - finding.first_offset + 1


_NONE: Final = OfMember()


def hurts(
    outcomes: Mapping[MemberKey, Outcomes], findings: Mapping[tuple[str | None, str | None], OfMember]
) -> Iterator[Headline]:
    """Yield what hurts members of share groups, with the reason as far as findings show it.

    What a member suffers from its own violations is no headline: these are.
    """
    acquired = Counter[tuple[int, str | None]]()
    for key, of in outcomes.items():
        acquired[key.cluster, key.group_id] += of.acquired
    refused: dict[tuple[str | None, str], list[Outcomes]] = defaultdict(list)
    lacking: dict[tuple[str | None, _Lack], list[Outcomes]] = defaultdict(list)
    for key, of in outcomes.items():
        found = findings.get((key.group_id, key.member_id), _NONE)
        reason = _reason(found, of)
        if not reason and found.breaks_rules:
            continue
        if (refusals := _refusals(of)) and refusals * _MANY >= of.acknowledged.total():
            refused[key.group_id, reason].append(of)
        elif (lack := _lack(of, acquired[key.cluster, key.group_id])) is not None:
            lacking[None if lack.kind == "failed" else key.group_id, lack].append(of)
    for (group_id, reason), members in refused.items():
        yield _refused(group_id, reason, members)
    for (group_id, lack), members in lacking.items():
        yield _lacking(group_id, lack, members)


def _refused(group_id: str | None, reason: str, members: list[Outcomes]) -> Headline:
    """Return the headline of members of a group whose acknowledgements were refused for the same reason."""
    members.sort(key=lambda of: -_refusals(of))
    worst, *others = members
    codes = Counter[int]()
    for of in members:
        codes.update({code: count for code, count in of.acknowledged.items() if code and code not in _OF_SESSIONS})
    (code, _), *_ = most = codes.most_common(2)
    why, advice = _REASONS[reason] if reason else _OF_ERRORS.get(code, ("", _remedy(code)))
    text = f"Client {_name(worst)}, group {shortened(group_id or '', 40)}: {_share(worst)} refused with "
    text += ", ".join(_error(code) for code, _ in most)
    text += f", {why}." if why else "."
    if others:
        shown = "; ".join(f"{_name(of, short=True)}: {_share(of, short=True)}" for of in others[:2])
        text += f" Also {shown}" + (f" and {len(others) - 2} more." if len(others) > 2 else ".")
    return _headline(text, advice, 84, worst, reason or None)


class _Lack(NamedTuple):
    """Why a member gets no records: it is throttled, its fetches fail with an error, or they come back empty while
    others of its group got records."""

    kind: Literal["throttled", "failed", "empty"]
    error: int = 0
    others: int = 0


def _lack(of: Outcomes, of_group: int) -> _Lack | None:
    """Return why a member gets no records; None if it gets some, or if there may be none for it."""
    if of.fetches < _FEW or 2 * of.records >= of.fetches:
        return None
    if 2 * of.throttled >= of.fetches:
        return _Lack("throttled")
    if 2 * of.failed.total() >= of.fetches:
        return _Lack("failed", of.failed.most_common(1)[0][0])
    is_long = of.fetches >= _FETCHES and of.until_ns - of.since_ns >= _LONG_NS
    return _Lack("empty", others=of_group) if is_long and not of.records and of_group >= _RECORDS else None


def _lacking(group_id: str | None, lack: _Lack, members: list[Outcomes]) -> Headline:
    """Return the headline of members that lack records for the same reason."""
    members.sort(key=lambda of: -of.fetches)
    fetches, records = sum(of.fetches for of in members), sum(of.records for of in members)
    who = f"Client {_name(members[0])}"
    if len(members) > 1:
        who = f"{len(members)} clients ({few(dict.fromkeys(_name(of, short=True) for of in members))})"
    if group_id is not None:
        who += f", group {shortened(group_id, 40)}"
    text = f"{who}: got no records"
    if records:
        text = f"{who}: got records with {counted(records, 'fetch', 'fetches')} only"
    every = counted(fetches, "fetch", "fetches")
    if lack.kind == "throttled":
        throttled = sum(of.throttled for of in members)
        each = duration(sum(of.throttled_ms for of in members) * 1_000_000 // throttled)
        text += f": the broker throttled {number(throttled)} of {every}, by {each} each on average"
    elif lack.kind == "failed":
        failed, count = sum(of.failed.total() for of in members), sum(of.failed[lack.error] for of in members)
        text += f": {number(failed)} of {every} failed, most with {_error(lack.error)} ({number(count)})"
    else:
        waited = duration(max(of.until_ns - of.since_ns for of in members))
        text += f" in {waited}: all {every} came back empty; others of the group got {number(lack.others)}"
    advice = _remedy(lack.error) if lack.kind == "failed" else _OF_LACKS[lack.kind]
    return _headline(f"{text}.", advice, 55, members[0])


def _remedy(code: int) -> str:
    """Return what an error asks for, as a sentence."""
    remedy = {int(error): text for error, text in REMEDY.items()}.get(code)
    return f"{remedy[:1].upper()}{remedy[1:]}." if remedy else f"kshark explain {_error(code)} says what it means."


def _error(code: int) -> str:
    return ERROR_NAMES.get(code, f"error {code}")


def _reason(found: OfMember, of: Outcomes) -> str:
    """Return the rule that explains at least half of a member's refused acknowledgements; empty if none does."""
    return next((code for code, records in found.records.most_common() if 2 * records >= _refusals(of)), "")


def _refusals(of: Outcomes) -> int:
    """Return the records whose acknowledgements were refused."""
    return sum(count for code, count in of.acknowledged.items() if code and code not in _OF_SESSIONS)


def _share(of: Outcomes, *, short: bool = False) -> str:
    refused, total = _refusals(of), of.acknowledged.total()
    if short:
        return f"{number(refused)} of {number(total)}"
    if refused == total == 1:
        return "the one record that it acknowledged was"
    if refused == total:
        return f"all {number(total)} records that it acknowledged were"
    return f"{number(refused)} of {counted(total, 'record')} that it acknowledged {'was' if refused == 1 else 'were'}"


def _name(of: Outcomes, *, short: bool = False) -> str:
    software = "" if short or of.software is None else f" ({shortened(of.software, 40)})"
    return f"{shortened(of.client_id or of.client, 40)}{software}"


def _headline(text: str, advice: str, weight: int, of: Outcomes, code: str | None = None) -> Headline:
    return Headline(
        "hurt",
        text,
        advice,
        code,
        weight=weight,
        since_ns=of.since_ns,
        until_ns=of.until_ns,
        packets=(of.first_packet, of.last_packet),
        clients=[of.client_id or of.client],
    )

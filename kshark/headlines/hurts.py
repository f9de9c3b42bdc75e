"""Headlines about who is hurt: members that get no records, and members whose acknowledgements do not count."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, Literal

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
#: A member lacks records after so many fetches in so much time, while others got so many of its partitions.
_FETCHES: Final = 5
_LONG_NS: Final = 5_000_000_000
_RECORDS: Final = 100
#: Most holders of records in a sentence.
_HOLDERS: Final = 3
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
    "earlier": "Nothing is wrong if nothing was produced since. Else look who holds the records (kshark deliveries "
    "--holders).",
}

#: The weights of their headlines: what may be ordinary comes after violations.
_WEIGHTS: Final = {"throttled": 55, "failed": 55, "empty": 39, "earlier": 39}

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
    """The findings about one member: whether it broke a rule, by code the refused acknowledgements that findings
    explain, by cause the sessions that it lost.

    `last_answered`: by broker, the connection and the packet of the last lost session's last accepted request.
    """

    breaks_rules: bool = False
    explained: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    last_answered: dict[str, tuple[int, int | None]] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        self.breaks_rules |= finding.verdict == "violation" and finding.blame == "client"
        if finding.code in _REASONS:
            self.explained[finding.code] += 1
        if finding.code == "SESSION_UNKNOWN" and finding.verdict == "note" and finding.event_code is None:
            self._lose(finding)

    def _lose(self, finding: Finding) -> None:
        """Count a lost session once: each refusal names the last request that was accepted."""
        last = finding.witness[0]
        if self.last_answered.get(finding.broker) != (last.flow, last.request_packet):
            self.last_answered[finding.broker] = last.flow, last.request_packet
            self.lost[finding.cause or ""] += 1


_NONE: Final = OfMember()


def hurts(
    outcomes: Mapping[MemberKey, Outcomes], findings: Mapping[tuple[str | None, str | None], OfMember]
) -> Iterator[Headline]:
    """Yield what hurts members of share groups, with the reason as far as findings show it.

    What a member suffers from its own violations is no headline: these are.
    """
    refused: dict[tuple[str | None, str], list[Outcomes]] = defaultdict(list)
    lacking: dict[tuple[str | None, _Lack], list[Outcomes]] = defaultdict(list)
    explained = Counter[int]()
    for key, of in outcomes.items():
        found = findings.get((key.group_id, key.member_id), _NONE)
        reason = _reason(found, of)
        if not reason and found.breaks_rules:
            continue
        if (refusals := _refusals(of)) and refusals * _MANY >= of.acknowledged.total():
            refused[key.group_id, reason].append(of)
            explained[id(of)] = found.explained[reason]
        elif (lack := _lack(of)) is not None:
            lacking[None if lack.kind == "failed" else key.group_id, lack].append(of)
    for (group_id, reason), members in refused.items():
        yield _refused(group_id, reason, members, sum(explained[id(of)] for of in members))
    for (group_id, lack), members in lacking.items():
        yield _lacking(group_id, lack, members)


def _refused(group_id: str | None, reason: str, members: list[Outcomes], explained: int) -> Headline:
    """Return the headline of members of a group whose acknowledgements were refused for the same reason.

    `explained`: the refusals for which findings show the reason.
    """
    members.sort(key=lambda of: -_refusals(of))
    worst, *others = members
    codes = Counter[int]()
    for of in members:
        codes.update({code: count for code, count in of.acknowledged.items() if code and code not in _OF_SESSIONS})
    (code, _), *_ = most = codes.most_common(2)
    why, advice = _REASONS[reason] if reason else _OF_ERRORS.get(code, ("", _remedy(code)))
    text = f"Client {_name(worst)}, group {shortened(group_id or '', 40)}: {_share(worst)} refused with "
    text += ", ".join(_error(code) for code, _ in most)
    total = sum(map(_cases, members))
    if reason and explained < total:
        why = f"in {number(explained)} of {number(total)} cases {why}"
    text += f", {why}." if why else "."
    if others:
        shown = "; ".join(f"{_name(of, short=True)}: {_share(of, short=True)}" for of in others[:2])
        text += f" Also {shown}" + (f" and {len(others) - 2} more." if len(others) > 2 else ".")
    return _headline(text, advice, 84, worst, reason or None)


class _Lack(Struct, frozen=True):
    """Why a member gets no records: it is throttled, its fetches fail with an error, or they come back empty because
    other members got those of its partitions: meanwhile, or all of them `earlier`."""

    kind: Literal["throttled", "failed", "empty", "earlier"]
    error: int = 0


def _lack(of: Outcomes) -> _Lack | None:
    """Return why a member gets no records; None if it gets some, or if there may be none for it."""
    if of.fetches < _FEW or 2 * of.records >= of.fetches:
        return None
    if 2 * of.throttled >= of.fetches:
        return _Lack("throttled")
    if 2 * of.failed.total() >= of.fetches:
        return _Lack("failed", of.failed.most_common(1)[0][0])
    is_long = of.fetches >= _FETCHES and of.until_ns - of.since_ns >= _LONG_NS
    if not is_long or of.records or of.waiting.earlier + of.waiting.meanwhile < _RECORDS:
        return None
    return _Lack("empty" if of.waiting.meanwhile else "earlier")


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
        text += f" in {waited}: {_returned_none(members)}; {_elsewhere(members)}"
    advice = _remedy(lack.error) if lack.kind == "failed" else _OF_LACKS[lack.kind]
    return _headline(f"{text}.", advice, _WEIGHTS[lack.kind], members[0])


def _returned_none(members: list[Outcomes]) -> str:
    """Return how many fetches came back without records and without an error."""
    fetches = sum(of.fetches for of in members)
    empty = fetches - sum(of.failed.total() + of.unanswered for of in members)
    every = counted(fetches, "fetch", "fetches")
    return f"all {every} came back empty" if empty == fetches else f"{number(empty)} of {every} came back empty"


def _elsewhere(members: list[Outcomes]) -> str:
    """Return where the records of their partitions went."""
    most = max((of.waiting for of in members), key=lambda waiting: (waiting.meanwhile, waiting.earlier))
    whose = "its partitions" if len(members) == 1 else "their partitions"
    if most.meanwhile:
        text = f"meanwhile other members got {counted(most.meanwhile, 'record')} of {whose}"
    else:
        text = f"other members had got {counted(most.earlier, 'record')} of {whose} before, and none since"
    held = Counter(most.held).most_common()
    if not held:
        return f"{text}, and hold none now" if most.meanwhile else text
    shown = ", ".join(f"{shortened(client, 40)} {number(records)}" for client, records in held[:_HOLDERS])
    shown += f" and {len(held) - _HOLDERS} more" if len(held) > _HOLDERS else ""
    return f"{text}; they hold {number(sum(most.held.values()))} now ({shown})"


def kept_waiting(finding: Finding, outcomes: Mapping[MemberKey, Outcomes]) -> str:
    """Return the sentence about members that get no records of the finding's partition; empty if there are none."""
    partition = finding.topic_id, finding.partition
    waiting = [
        of
        for key, of in outcomes.items()
        if key.group_id == finding.group_id
        and of.fetches >= _FEW
        and not of.records
        and partition in of.waiting.partitions
    ]
    if not waiting:
        return ""
    names = few(dict.fromkeys(_name(of, short=True) for of in waiting))
    return f" Client {names} got none of its records: {_returned_none(waiting)}."


def _remedy(code: int) -> str:
    """Return what an error asks for, as a sentence."""
    remedy = {int(error): text for error, text in REMEDY.items()}.get(code)
    return f"{remedy[:1].upper()}{remedy[1:]}." if remedy else f"kshark explain {_error(code)} says what it means."


def _error(code: int) -> str:
    return ERROR_NAMES.get(code, f"error {code}")


def _reason(found: OfMember, of: Outcomes) -> str:
    """Return the rule that explains at least half of a member's refusals; empty if none does."""
    refusals = _cases(of)
    return next((code for code, count in found.explained.most_common() if refusals and 2 * count >= refusals), "")


def _cases(of: Outcomes) -> int:
    """Return the refusals: partitions in requests whose acknowledgements were refused."""
    return sum(count for code, count in of.refused.items() if code not in _OF_SESSIONS)


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

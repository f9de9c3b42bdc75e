"""Plays the exchanges that rows show as wrong and right: words (kshark/analysis/rules/README.md) to packets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from tests.analysis.rules.stored_examples import Senders
from tests.analysis.talks import alone, assigned, batch_of, handed, led_elsewhere, left
from tests.conversation import TOPIC, Asked, Member

_TYPES: Final = {"accept": [1], "release": [2], "reject": [3], "renew": [4]}
_NO_TOPIC: Final = "A" * 22
#: What a ShareFetch asks for that only renews locks.
_NOTHING: Final = {
    "max_wait_ms": 0,
    "min_bytes": 0,
    "max_bytes": 0,
    "max_records": 0,
    "share_acquire_mode": 0,
    "is_renew_ack": True,
}
_WHO: Final = (
    r"(?:on (?P<connection>[B-Z]): |by (?P<member>[b-z]): )?(?P<api>{}) epoch (?P<epoch>-?\d+)"
    r'(?P<nameless>, member id "")?'
)
_HANDED: Final = (
    r", offsets(?P<ranges>(?: \d+-\d+)+)(?:, delivery (?P<delivery>\d+))?(?:, locked (?P<lock>\d+) ms)?"
    r"(?P<batches>(?:, (?:batch|control) \d+-\d+)+)?"
)
_REQUEST: Final = re.compile(
    _WHO.format("ShareFetch|ShareAcknowledge") + r"(?P<words>.*) → (?P<error>…|-?\d+)"
    rf"(?:{_HANDED}|, t\[0\] (?P<refused>-?\d+)(?P<hint>, leader 2)?|(?P<silent>, no t\[0\]))?"
)
_WORD: Final = re.compile(
    r", (?:(?P<verb>accept|release|reject|renew)|types (?P<types>none|\d+(?: \d+)*) for)(?P<ranges>(?: \d+-\d+)+)"
    r"|, (?P<where>list|forget)(?P<partitions>(?: t\[\d+\])+)"
    r"|, (?P<limit>max_records|record_limit|max_wait_ms) (?P<most>-?\d+)"
    r"|, (?P<strange>topic id 0)"
)
_LATE: Final = re.compile(rf"… → (?P<error>-?\d+)(?:{_HANDED})?")
_HEARTBEAT: Final = re.compile(
    _WHO.format("ShareGroupHeartbeat|ConsumerGroupHeartbeat")
    + r"(?P<topics>, topics t)? → (?P<error>\d+)(?:, given (?P<given>\d+))?(?:, assigned(?P<assigned>(?: t\[\d+\])+))?"
)
#: The first words of conversations in which the member has not joined before.
_UNJOINED: Final = re.compile(r"ShareGroupHeartbeat epoch 0|Consumer|JoinGroup")
_JOINING: Final = re.compile(
    r"(?:by (?P<member>b): )?JoinGroup(?:, instance (?P<instance>[ij]))? → 0, generation (?P<given>\d+)"
)
_CLASSIC: Final = re.compile(
    r"(?:by (?P<member>b): )?Heartbeat generation (?P<given>\d+)(?P<nameless>, no member)?"
    r"(?:, instance (?P<instance>[ij]))? → (?P<error>\d+)"
)
_COMMIT: Final = re.compile(r'OffsetCommit epoch (?P<epoch>-?\d+)(?P<nameless>, member id "")? → (?P<error>\d+)')
_MEMBERSHIP: Final = re.compile(
    r"(?P<member>[a-z]) (?:(?P<joins>joins)|(?P<leaves>leaves)|is assigned(?P<partitions>(?: t\[\d+\])+))"
)
_RELEASE: Final = re.compile(r"Kafka (\d\.\d); ")
_PAUSE: Final = re.compile(r"(\d+) ms later")
_CLOSED: Final = re.compile(r"([A-Z]) closes")


class Example:
    """Says lines in a conversation. Who does not begin by joining has joined before. Raises ValueError for words it
    does not know."""

    def __init__(self, lines: str) -> None:
        release = _RELEASE.match(lines)
        lines = lines.removeprefix(release[0] if release else "")
        self.talk = alone(release=release[1] if release else "4.2")
        self._members = {"a": self.talk.member("a", joined=_UNJOINED.match(lines) is None)}
        self._connections = {"A": self._members["a"].connection}
        self._senders = Senders(self.talk)
        self._open: list[Asked] = []
        for line in lines.split("; "):
            self._say(line)

    def _say(self, line: str) -> None:
        for words, say in _SAY.items():
            if said := words.fullmatch(line):
                say(self, said)
                return
        if not self._senders.say(line):
            raise ValueError(line)

    def _ask(self, said: re.Match[str]) -> None:
        asked = _asked(self._who(said), said["api"], int(said["epoch"]), said["words"])
        if said["error"] == "…":
            self._open.append(asked)
            return
        if said["silent"]:
            asked.acknowledged.clear()
        refused = int(said["refused"] or 0)
        told = led_elsewhere() if said["hint"] else _handed(said)
        if refused and not asked.acknowledged:
            told = {
                "responses": [
                    {"topic_id": TOPIC, "partitions": [{"partition_index": 0, "error_code": refused, "records": b""}]}
                ]
            } | told
        asked.answered(int(said["error"]), acks={0: refused}, **told)

    def _answer(self, said: re.Match[str]) -> None:
        self._open.pop(0).answered(int(said["error"]), **_handed(said))

    def _beat(self, said: re.Match[str]) -> None:
        epoch, error = int(said["epoch"]), int(said["error"])
        member = replace(self._who(said), api_key=68 if said["api"] == "ConsumerGroupHeartbeat" else 76)
        asked = member.heartbeat(epoch, ["t"] if said["topics"] else None)
        if error:
            asked.answered(error)
            return
        partitions = _numbers(said["assigned"] or "")
        told = {"topic_partitions": [{"topic_id": TOPIC, "partitions": partitions}]} if partitions else None
        asked.given(int(said["given"] or epoch or 1), assignment=told, interval_ms=5000 if epoch >= 0 else 0)

    def _join(self, said: re.Match[str]) -> None:
        self._classic_member(said).join_group(int(said["given"]), instance=said["instance"])

    def _classic(self, said: re.Match[str]) -> None:
        member = self._classic_member(said)
        member = replace(member, member_id="") if said["nameless"] else member
        beat = member.classic_heartbeat(int(said["given"]), instance=said["instance"])
        beat.answered(int(said["error"]))

    def _classic_member(self, said: re.Match[str]) -> Member:
        """A classic member; the second one is on a host of its own."""
        name = said["member"] or "a"
        if name not in self._members:
            self._members[name] = self.talk.member(name, connection=self.talk.connection(host="10.0.0.2"), joined=False)
        return self._members[name]

    def _commit(self, said: re.Match[str]) -> None:
        member = replace(self._member("a"), member_id="") if said["nameless"] else self._member("a")
        member.commit(int(said["epoch"])).committed(int(said["error"]))

    def _belong(self, said: re.Match[str]) -> None:
        member = self._member(said["member"])
        if said["joins"]:
            member.join()
        elif said["leaves"]:
            left(member)
        else:
            assigned(member, *_numbers(said["partitions"]))

    def _wait(self, said: re.Match[str]) -> None:
        self.talk.pause(int(said[1]) / 1000)

    def _close(self, said: re.Match[str]) -> None:
        self._connections[said[1]].reset()

    def _who(self, said: re.Match[str]) -> Member:
        """The member that sends it, on the connection that is named."""
        member = self._member(said["member"] or "a")
        if said["nameless"]:
            member = Member(member.connection, member.group, "")
        if not said["connection"]:
            return member
        if said["connection"] not in self._connections:
            self._connections[said["connection"]] = self.talk.connection()
        return member.on(self._connections[said["connection"]])

    def _member(self, name: str) -> Member:
        if name not in self._members:
            self._members[name] = self.talk.member(name)
        return self._members[name]


#: What is said, by its words.
_SAY: Final[dict[re.Pattern[str], Callable[[Example, re.Match[str]], None]]] = {
    _REQUEST: Example._ask,
    _LATE: Example._answer,
    _HEARTBEAT: Example._beat,
    _JOINING: Example._join,
    _CLASSIC: Example._classic,
    _COMMIT: Example._commit,
    _MEMBERSHIP: Example._belong,
    _PAUSE: Example._wait,
    _CLOSED: Example._close,
}


def _handed(said: re.Match[str]) -> dict[str, Any]:
    """The records that an answer hands out."""
    if not said["ranges"]:
        return {}
    count = int(said["delivery"] or 1)
    found = re.findall(r"(batch|control) (\d+)-(\d+)", said["batches"] or "")
    records = b"".join(batch_of(int(first), int(last), control=kind == "control") for kind, first, last in found)
    ranges = ((0, *one, count) for one in _ranges(said["ranges"]))
    return {"responses": handed(*ranges, records=records), "acquisition_lock_timeout_ms": int(said["lock"] or 30_000)}


def _asked(member: Member, api: str, epoch: int, words: str) -> Asked:
    found = [*_WORD.finditer(words)]
    if "".join(word[0] for word in found) != words:
        raise ValueError(words)
    batches = [batch for word in found if word["ranges"] for batch in _batches(word)]
    renews = any(word["verb"] == "renew" for word in found)
    topic = _NO_TOPIC if any(word["strange"] for word in found) else TOPIC
    if api == "ShareAcknowledge":
        return member.share_acknowledge(epoch, batches=batches, version=2, renew=renews, topic=topic)
    named = {word["where"]: _numbers(word["partitions"]) for word in found if word["where"]}
    acks = [(batch["first_offset"], batch["last_offset"], batch["acknowledge_types"][0]) for batch in batches]
    asks = {key: value for word in found if word["limit"] for key, value in _limit(word).items()}
    fields: dict[str, Any] = (_NOTHING if renews else {"share_acquire_mode": 0, "is_renew_ack": False}) | asks
    listed, gone = named.get("list", [0] if acks else []), named.get("forget", [])
    return member.share_fetch(epoch, listed, acks=acks, forget=gone, topic=topic, version=2, **fields)


def _limit(word: re.Match[str]) -> dict[str, int]:
    if word["limit"] == "max_wait_ms":
        return {"max_wait_ms": int(word["most"])}
    strict = {"share_acquire_mode": 1} if word["limit"] == "record_limit" else {}
    return {"max_records": int(word["most"]), **strict}


def _batches(word: re.Match[str]) -> Iterator[dict[str, Any]]:
    types = _TYPES[word["verb"]] if word["verb"] else [int(one) for one in re.findall(r"\d+", word["types"])]
    for first, last in _ranges(word["ranges"]):
        yield {"first_offset": first, "last_offset": last, "acknowledge_types": types}


def _ranges(words: str) -> Iterator[tuple[int, int]]:
    return ((int(first), int(last)) for first, last in re.findall(r"(\d+)-(\d+)", words))


def _numbers(partitions: str) -> list[int]:
    """`t[0] t[1]`."""
    return [int(one) for one in re.findall(r"\d+", partitions)]

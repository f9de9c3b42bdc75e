"""Requests of group members that carry a generation or a member epoch, each with the coordinator's answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import UNSET

from kshark.analysis.facts.argument import refused_with
from kshark.analysis.facts.calls import Call
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.reading import read_as
from kshark.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, OFFSET_COMMIT, SYNC_GROUP
from kshark.model import Message

ILLEGAL_GENERATION: Final = 22
UNKNOWN_MEMBER_ID: Final = 25
REBALANCE_IN_PROGRESS: Final = 27
FENCED_INSTANCE_ID: Final = 82
UNRELEASED_INSTANCE_ID: Final = 111
STALE_MEMBER_EPOCH: Final = 113
#: Errors about an instance id, and all that a finding must explain.
OF_INSTANCES: Final = frozenset({FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID})
REFUSALS: Final = OF_INSTANCES | {ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH}
#: Requests with a generation that may name no member.
UNNAMED: Final = frozenset({HEARTBEAT, SYNC_GROUP, OFFSET_COMMIT})
#: The field of a request with the generation or member epoch, by API.
_NUMBER_FIELDS: Final = {OFFSET_COMMIT: "generation_id_or_member_epoch", CONSUMER_GROUP_HEARTBEAT: "member_epoch"}


class Use(Call, eq=False):
    """A request of a member.

    `epoch`: its generation or member epoch; -1 if it has none. `error`: the code of the answer, or the first one of its
    partitions; None without an answer. `given`: the generation or member epoch in an accepted answer, if it gives one.
    `instance`: the group.instance.id. `reason`: why it leaves (LeaveGroup 5). `session_ns`, `rebalance_ns`: its session
    timeout and its rebalance timeout (JoinGroup). `is_unnamed`: it has a generation, and names no member.
    """

    error: int | None = None
    given: int | None = None
    instance: str | None = None
    reason: str = ""
    session_ns: int = 0
    rebalance_ns: int = 0
    is_unnamed: bool = False

    @property
    def refused(self) -> bool:
        """True if a finding must explain the refusal. Those of consumers' epochs have rules of their own."""
        if self.api_key == LEAVE_GROUP:
            return False
        return self.error in (OF_INSTANCES if self.api_key == CONSUMER_GROUP_HEARTBEAT else REFUSALS)

    @property
    def unit(self) -> str:
        """The word for its number."""
        consumer = self.api_key == CONSUMER_GROUP_HEARTBEAT or self.error == STALE_MEMBER_EPOCH
        return "member epoch" if consumer else "generation"

    @property
    def story(self) -> str:
        """Return `OffsetCommit #6 (generation 1) was refused with ILLEGAL_GENERATION (packets 25, 26)`."""
        number = f" ({self.unit} {self.epoch})" if self.epoch >= 0 and self.api_key != JOIN_GROUP else ""
        number = number.replace(")", ", no member id)") if self.is_unnamed else number
        if self.error:
            outcome = refused_with(self.error)
        elif self.given is not None and self.given >= 0:
            outcome = f"got {self.unit} {self.given}"
        else:
            outcome = "was not answered" if self.error is None else "was accepted"
        return f"{self.here}{number} {outcome} ({self.packets})"


def uses_of(request: Message, response: Message | None, connection: ConnectionFacts) -> Iterator[Use]:
    """Yield the request once for each member that it is about: LeaveGroup may name several."""
    asked, answered = request.body, None if response is None else response.body
    number = getattr(asked, _NUMBER_FIELDS.get(request.api_key or 0, "generation_id"), -1)
    use = read_as(Use, request, response, connection, number if isinstance(number, int) else -1)
    if use.group_id is None or use.any_doubt == "cut":
        return
    use.instance = _text(asked, "group_instance_id") or _text(asked, "instance_id")
    use.error = _error(use, answered)
    use.session_ns = (_number(asked, "session_timeout_ms") or 0) * 1_000_000
    use.rebalance_ns = max(_number(asked, "rebalance_timeout_ms") or 0, 0) * 1_000_000
    if use.error == 0:
        use.member_id = use.member_id or _text(answered, "member_id")
        use.given = _number(answered, "generation_id", "member_epoch")
    members = getattr(asked, "members", UNSET) if use.api_key == LEAVE_GROUP else UNSET
    for member in [asked] if members is UNSET else members or ():
        if members is not UNSET:
            use = read_as(Use, request, response, connection, -1)
            use.member_id, use.error = member.member_id, _error(use, answered)
            use.instance, use.reason = _text(member, "group_instance_id"), _text(member, "reason") or ""
        use.is_unnamed = not use.member_id and not use.instance and use.epoch >= 0 and use.api_key in UNNAMED
        if use.member_id or use.instance or use.is_unnamed:
            yield use


def _error(use: Use, answered: Any) -> int | None:
    """Return the error of an answer, or the first one of its partitions."""
    if answered is None or use.answer is None or use.answer.doubt == "cut":
        return None
    if use.api_key != OFFSET_COMMIT:
        return use.answer.error
    codes = [part.error_code for topic in answered.topics or () for part in topic.partitions or ()]
    return next((code for code in codes if code), 0)


def _text(body: Any, name: str) -> str | None:
    value = getattr(body, name, None)
    return value if isinstance(value, str) and value else None


def _number(body: Any, *names: str) -> int | None:
    values = (getattr(body, name, None) for name in names)
    return next((value for value in values if isinstance(value, int)), None)

"""Whose an answer is: answers of Kafka rarely name a group or a member, their requests do."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from msgspec import UNSET

from kshark.model import OWNER, Message
from kshark.schema import Field

#: The group and the member that a request names; None, or UNSET, for what it does not.
Owner = tuple[Any, Any]


def owner_names(body: Field, version: int) -> tuple[str, ...]:
    """Which of the group and the member such a body names."""
    names = {field.name for field in body.in_wire_order(version) if field.type == "string"}
    return tuple(name for name in OWNER if name in names)


def owner_reader(names: tuple[str, ...]) -> Callable[[Any], Owner] | None:
    """`owner_of` for the codec's bodies that name these and were read whole; None for those that name nobody."""
    match names:
        case ("group_id",):
            return lambda body: (body.group_id, UNSET)
        case ("member_id",):
            return lambda body: (UNSET, body.member_id)
        case _:
            return attrgetter(*names) if names else None


def owner_of(body: Any) -> Owner:
    """Whose a request is, by its body."""
    return getattr(body, "group_id", None), getattr(body, "member_id", None)


def belongs(answer: Message, owner: Owner) -> None:
    """The answer is its request's group's and member's; what it says of them itself stands in its body."""
    group_id, member_id = owner
    if isinstance(group_id, str) and not getattr(answer.body, "group_id", None):
        answer.group_id = group_id
    if isinstance(member_id, str) and not getattr(answer.body, "member_id", None):
        answer.member_id = member_id

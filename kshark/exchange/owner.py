"""Owner of an answer: the group and the member that it concerns.

Kafka's answers rarely name them; their requests do.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from msgspec import UNSET

from kshark.model import OWNER, Message
from kshark.schema import Field

#: The group and the member of a request; None, or UNSET, if it does not name them.
Owner = tuple[Any, Any]


def owner_names(body: Field, version: int) -> tuple[str, ...]:
    """Return the fields, of the group and the member, that such a body has."""
    names = {field.name for field in body.in_wire_order(version) if field.type == "string"}
    return tuple(name for name in OWNER if name in names)


def owner_reader(names: tuple[str, ...]) -> Callable[[Any], Owner] | None:
    """Return a reader like `owner_of` for complete bodies of the codec that have these fields.

    Return None if `names` is empty.
    """
    match names:
        case ("group_id",):
            return lambda body: (body.group_id, UNSET)
        case ("member_id",):
            return lambda body: (UNSET, body.member_id)
        case _:
            return attrgetter(*names) if names else None


def owner_of(body: Any) -> Owner:
    """Return the owner of a request, from its body."""
    return getattr(body, "group_id", None), getattr(body, "member_id", None)


def belongs(answer: Message, owner: Owner) -> None:
    """Set the group and the member of an answer to its request's, unless the answer's body names them itself."""
    group_id, member_id = owner
    if isinstance(group_id, str) and not getattr(answer.body, "group_id", None):
        answer.group_id = group_id
    if isinstance(member_id, str) and not getattr(answer.body, "member_id", None):
        answer.member_id = member_id

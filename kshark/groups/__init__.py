"""Groups of all types, as their messages show them: events in, one `ListedGroup` for each group out.

groups = Groups()
for page in pages: for event in page: groups.feed(event)
groups.close()
groups.listed(names)
"""

from __future__ import annotations

from kshark.groups.groups import APIS, GroupKey, Groups
from kshark.groups.listed import (
    AcknowledgementStyle,
    Assigned,
    Coordinator,
    GroupSetting,
    GroupState,
    ListedGroup,
    ListedMember,
    MemberEnd,
)

__all__ = [
    "APIS",
    "AcknowledgementStyle",
    "Assigned",
    "Coordinator",
    "GroupKey",
    "GroupSetting",
    "GroupState",
    "Groups",
    "ListedGroup",
    "ListedMember",
    "MemberEnd",
]

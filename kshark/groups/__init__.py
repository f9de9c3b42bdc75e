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
    GroupOffset,
    GroupSetting,
    GroupState,
    ListedGroup,
    ListedMember,
    MemberEnd,
)
from kshark.groups.offsets import OFFSET_APIS

__all__ = [
    "APIS",
    "OFFSET_APIS",
    "AcknowledgementStyle",
    "Assigned",
    "Coordinator",
    "GroupKey",
    "GroupOffset",
    "GroupSetting",
    "GroupState",
    "Groups",
    "ListedGroup",
    "ListedMember",
    "MemberEnd",
]

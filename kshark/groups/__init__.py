"""Groups of all types, as their messages show them: events in, one `ListedGroup` for each group out.

groups = Groups()
for page in pages: for event in page: groups.feed(event)
groups.close()
groups.listed(names)
"""

from __future__ import annotations

from kshark.analysis.facts.settings import CONFIG_APIS
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
from kshark.groups.settings import GroupSettings

__all__ = [
    "APIS",
    "CONFIG_APIS",
    "OFFSET_APIS",
    "AcknowledgementStyle",
    "Assigned",
    "Coordinator",
    "GroupKey",
    "GroupOffset",
    "GroupSetting",
    "GroupSettings",
    "GroupState",
    "Groups",
    "ListedGroup",
    "ListedMember",
    "MemberEnd",
]

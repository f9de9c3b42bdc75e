"""Groups of all types as their messages show them: events in, one `ListedGroup` for each group out.

groups = Groups()
for page in pages: for event in page: groups.feed(event)
groups.close()
groups.listed(names)
"""

from __future__ import annotations

from kshark.groups.groups import APIS, GroupKey, Groups
from kshark.groups.listed import Acknowledging, Assigned, Coordinator, Ended, GroupState, ListedGroup, ListedMember

__all__ = [
    "APIS",
    "Acknowledging",
    "Assigned",
    "Coordinator",
    "Ended",
    "GroupKey",
    "GroupState",
    "Groups",
    "ListedGroup",
    "ListedMember",
]

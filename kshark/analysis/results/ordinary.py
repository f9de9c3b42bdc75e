"""Expected errors, which are nobody's fault: the cause of each, by error code and API.

Errors whose cause depends on earlier requests have rules instead. These causes are for errors that no finding explains.
"""

from __future__ import annotations

from typing import Final

#: By error code, of any API.
_OF_ANY_API: Final = {
    6: "not_leader",
    14: "loading",
    15: "not_available",
    16: "not_coordinator",
    27: "rebalancing",
    29: "not_authorized",
    30: "not_authorized",
    31: "not_authorized",
    53: "not_authorized",
    46: "appended_before",
    51: "transaction_open",
    55: "others_refused",
    78: "leader_catching_up",
}
#: By API and error code. A former leader has two codes. A request for a group is answered that there is none, or none
#: of that type.
_OF_API: Final = {
    ("ShareFetch", 74): "not_leader",
    ("ShareFetch", 124): "state_fenced",
    ("JoinGroup", 79): "member_id_given",
    ("LeaveGroup", 25): "already_gone",
    ("DeleteGroups", 68): "not_empty",
    ("OffsetDelete", 86): "subscribed",
    **{
        (api, 69): "no_such_group"
        for api in (
            "ShareGroupDescribe",
            "DescribeShareGroupOffsets",
            "AlterShareGroupOffsets",
            "DeleteShareGroupOffsets",
            "ConsumerGroupDescribe",
            "StreamsGroupDescribe",
            "DescribeGroups",
            "DeleteGroups",
        )
    },
}


#: All causes of this file.
CAUSES: Final = frozenset({*_OF_ANY_API.values(), *_OF_API.values()})


def cause_of(api: str, error_code: int) -> str | None:
    """Return a word of kshark.analysis.rules.causes; None if the code alone does not show the cause."""
    return _OF_API.get((api, error_code)) or _OF_ANY_API.get(error_code)

"""Refusals that nobody is to blame for, and that say themselves why they came: the cause of each, by error code and
API.

What depends on what was before has a rule instead; these are for what no finding explains.
"""

from __future__ import annotations

from typing import Final

#: By error code, of whatever API.
_ANYWHERE: Final = {
    6: "not_leader",
    14: "loading",
    15: "not_available",
    16: "not_coordinator",
    27: "rebalancing",
    29: "not_authorized",
    30: "not_authorized",
    31: "not_authorized",
    53: "not_authorized",
    51: "transaction_open",
    55: "others_refused",
}
#: By API and error code: a leader that is none any more says so in two ways; who asks for a group is told that there is
#: none, or none of that type.
_THERE: Final = {
    ("ShareFetch", 74): "not_leader",
    ("JoinGroup", 79): "member_id_given",
    ("DeleteGroups", 68): "not_empty",
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


#: All causes that are named here.
CAUSES: Final = frozenset({*_ANYWHERE.values(), *_THERE.values()})


def cause_of(api: str, error_code: int) -> str | None:
    """A word of kshark.analysis.rules.causes; None where the code alone does not tell."""
    return _THERE.get((api, error_code)) or _ANYWHERE.get(error_code)

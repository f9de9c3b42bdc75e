"""Steps of the answer keys at which kshark names none of the rules that their maker had in mind, and why that is right.

By capture and the step's place in its key. Most are controls: what is right, and shows what became of the step before.
"""

from __future__ import annotations

from typing import Final

_CONTROL: Final = "right, and accepted: it shows what the step before has done"
_FEW: Final = "too few records for a rate: it is told of the third request with releases, once"
_NOT_LAST: Final = "the last delivery is the fourth here, and what was given up is told where it is"
_STRANDED: Final = "what was stranded is told where its records come again"
_ANSWERED: Final = "answered, not refused with 123: what it was overtaken by had replaced or closed its session"

UNTOLD: Final[dict[str, dict[int, str]]] = {
    "adv-acks": {
        13: _CONTROL,
        19: "no batch: nothing was acknowledged whose result could be missing",
        22: "answered as what nobody was handed records of: rule 56",
        23: "answered as what another broker leads, and there is another one: that this one does not lead it is as "
        "likely",
        26: _CONTROL,
        27: "the control is refused: rule 58",
        30: "for which delivery an acknowledgement was meant no message shows: it is one of the last",
        34: _FEW,
        35: _FEW,
        36: "the third delivery is not the last",
        38: _NOT_LAST,
        39: _FEW,
        41: _FEW,
        43: _FEW,
        45: _FEW,
        46: "one type for a whole batch: what it means for control records nobody knows",
    },
    "adv-epochs": {
        20: _CONTROL,
        24: _CONTROL,
        25: "the control is refused: rule 58",
        30: "the first of the loop only opens a session",
        38: "partitions that it forgets are no payload: Java clients forget with whatever request comes next",
    },
    "adv-frames": {
        18: "the version is one that the broker has; its software's name is wrong, which has a row outside the "
        "catalogue",
        23: "not answered, as it should be",
        24: "not answered, as it should be: the connection is closed",
    },
    "adv-members": {
        9: "the epoch before is right: no newer one was given",
        12: "from 4.2 on whoever is there may join again, and does",
        15: "told at the fetch before: once",
        19: "the member was told no assignment: nothing is another's",
        33: _CONTROL,
        40: "brokers take a Write with a higher state epoch, and do not store that",
        42: _CONTROL,
    },
    "adv-races-4.1.2": {
        1: _ANSWERED,
        2: _STRANDED,
        4: _ANSWERED,
        6: _STRANDED,
        8: _STRANDED,
        9: _STRANDED,
        10: _STRANDED,
        11: "the ranges of this answer are well-formed",
        13: "this answer has no ranges",
        14: _STRANDED,
        15: _STRANDED,
        16: _STRANDED,
        17: _STRANDED,
        18: _STRANDED,
    },
    "adv-sessions-4.2.1": {
        3: "from 4.2 on a release counts: the delivery count goes on",
        5: "from 4.2 on the session outlives the older connection",
        6: "from 4.2 on a release counts: the delivery count goes on",
        9: _CONTROL,
        10: "nothing of the partition comes",
        12: "it forgets nothing: what was left locked is told where it was forgotten",
        13: "a member of whom no heartbeat is seen may have joined elsewhere",
        17: _STRANDED,
        21: "on one connection requests are taken in their order",
        22: "on one connection requests are taken in their order",
        23: "on one connection requests are taken in their order",
        25: _ANSWERED,
        35: "to forget it is what helps",
        39: "from 4.2 on a member id need not be a uuid",
    },
}

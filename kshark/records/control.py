"""Control records, which the transaction coordinator and the Raft quorum write between users' records.

Source: Kafka classes ControlRecordType and EndTransactionMarker; the key is int16 version, int16 type.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kshark.records.batch import Control

KEY: Final = Struct(">hh")
END_TRANSACTION: Final = Struct(">hi")
TYPES: Final = {
    0: "abort",
    1: "commit",
    2: "leader_change",
    3: "snapshot_header",
    4: "snapshot_footer",
    5: "kraft_version",
    6: "kraft_voters",
}


def read_control(key: bytes | None, value: bytes | None) -> Control | None:
    """Return the control record with this key and value; None if the key is too short to have a type.

    A type that Kafka does not have is given as its number.
    """
    if key is None or len(key) < KEY.size:
        return None
    number = KEY.unpack_from(key)[1]
    control = Control(TYPES.get(number, str(number)))
    if number in (0, 1) and value is not None and len(value) >= END_TRANSACTION.size:
        control.version, control.coordinator_epoch = END_TRANSACTION.unpack_from(value)
    return control

"""Select the suspects: a superset of the groups and members that can have a finding, from typed columns only.

A group is skipped if its records in flight are plain (kshark_spark.screen.records). Then each of its members is skipped
if its share sessions (.sessions) and heartbeats (.heartbeats) are plain. These modules define `plain`; triggers and
conditions come from the rows of rules. The exchanges of consumer groups are few, and all
read. If another machine has no screen, or if a check does not declare that plain steps do not concern it, the exchanges
of all members are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from kshark.analysis.rules import BOOK
from kshark.analysis.states.tables import CONSUMER, GENERATION, IN_FLIGHT, MEMBER, PERSISTER, SESSION
from kshark_spark.rows import collected, frame_of
from kshark_spark.screen.exchanges import suspects_of_exchanges
from kshark_spark.screen.heartbeats import heartbeats_of
from kshark_spark.screen.records import suspicious_groups
from kshark_spark.screen.sessions import members_of

if TYPE_CHECKING:
    from kshark_spark.tables import Tables

_SCREENED: Final = frozenset({SESSION, MEMBER, IN_FLIGHT, PERSISTER})
#: Machines without a screen whose exchanges are few: they are all read.
_READ: Final = frozenset({CONSUMER, GENERATION})
#: The APIs of these machines.
UNSCREENED: Final = frozenset[int]().union(*(machine.apis for machine in _READ))
_MEMBERS: Final = pa.schema([("capture", pa.string()), ("group", pa.int64()), ("member", pa.int64())])
_GROUPS: Final = pa.schema([("group", pa.int64()), ("is_suspect", pa.bool_())])


class Suspects(NamedTuple):
    """The groups and members whose exchanges must be read, as numbers of kshark_spark.screen.keys."""

    groups: list[int]
    members: list[int]


class Screened(NamedTuple):
    """The result of screening.

    `suspects`: None for all members. `clean`: number of sessions of all other members, by capture.
    """

    suspects: Suspects | None
    clean: dict[str, int]


#: All members are suspects.
EVERYBODY: Final = Screened(None, {})


def screened(tables: Tables, names: Mapping[tuple[str, str], str], window: int) -> Screened:
    """Return the suspects of all captures.

    `names`: for brokers with several addresses, the one that represents the broker, by capture and address. `window`:
    number of offsets in flight in a partition that may delay a fetch.
    """
    if not (_SCREENED | _READ).issuperset(BOOK.machines) or any(map(BOOK.concerns_plain, BOOK.machines)):
        return EVERYBODY
    spark, beats = tables["exchanges"].sparkSession, heartbeats_of(tables)
    rows_of_exchanges = [*collected(suspects_of_exchanges(spark, tables).distinct(), "find suspicious exchanges")]
    suspicious = {group for _, group, _, of_group in rows_of_exchanges if of_group} | {
        group for (group,) in collected(beats.groups.distinct(), "find late members")
    }
    groups = [*suspicious_groups(spark, tables, suspicious, window)]
    suspicious_frame = frame_of(spark, _GROUPS, [(group, True) for group in groups])
    others = frame_of(
        spark,
        _MEMBERS,
        [(capture, group, member) for capture, group, member, of_group in rows_of_exchanges if not of_group],
    )
    members = (
        members_of(tables, beats.members, others, names)
        .join(F.broadcast(suspicious_frame), "group", "left")
        .where("is_suspect is null")
    )
    suspect = F.collect_list(F.when(F.col("suspicious"), F.col("member")))
    clean = F.sum(F.when(~F.col("suspicious"), F.col("sessions")).otherwise(0))
    rows = [*collected(members.groupBy("capture").agg(suspect, clean), "find suspicious members")]
    suspects = Suspects(groups, [member for _, own, _ in rows for member in own])
    return Screened(suspects, {capture: sessions for capture, _, sessions in rows})

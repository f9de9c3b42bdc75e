"""Whose exchanges have to be read at all: a superset of those of whom there is something to say, told by typed columns
alone.

A group passes unseen when its records in flight are as plain as can be (kshark_spark.screen.records); then its
members are told apart: one passes whose share sessions (.sessions) and heartbeats (.heartbeats) are. What is plain
stands there; triggers and conditions come from the rules' rows. Where a machine has no
screen, or a check does not declare that plain steps do not concern it, everybody's exchanges are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from kshark.analysis.rules import BOOK
from kshark.analysis.states.tables import IN_FLIGHT, MEMBER, PERSISTER, SESSION
from kshark_spark.rows import collected, frame_of
from kshark_spark.screen.exchanges import told_by_exchanges
from kshark_spark.screen.heartbeats import heartbeats_of
from kshark_spark.screen.records import suspicious_groups
from kshark_spark.screen.sessions import members_of

if TYPE_CHECKING:
    from kshark_spark.tables import Tables

_SCREENED: Final = frozenset({SESSION, MEMBER, IN_FLIGHT, PERSISTER})
_MEMBERS: Final = pa.schema([("capture", pa.string()), ("group", pa.int64()), ("member", pa.int64())])
_GROUPS: Final = pa.schema([("group", pa.int64()), ("known", pa.bool_())])


class Suspects(NamedTuple):
    """Whose exchanges have to be read: by kshark_spark.screen.keys."""

    groups: list[int]
    members: list[int]


class Screened(NamedTuple):
    """`suspects` None: everybody; `clean`: by capture, the sessions of all others."""

    suspects: Suspects | None
    clean: dict[str, int]


#: Nobody passes unseen.
EVERYBODY: Final = Screened(None, {})


def screened(tables: Tables, names: Mapping[tuple[str, str], str], window: int) -> Screened:
    """`names`: of brokers with several addresses, by capture and address the one that stands for all; `window`: so many
    offsets of a partition in flight may keep a fetch waiting."""
    if not _SCREENED.issuperset(BOOK.machines) or any(map(BOOK.concerns_plain, BOOK.machines)):
        return EVERYBODY
    spark, beats = tables["exchanges"].sparkSession, heartbeats_of(tables)
    told = [*collected(told_by_exchanges(spark, tables).distinct())]
    suspicious = {group for _, group, _, of_group in told if of_group} | {
        group for (group,) in collected(beats.groups.distinct())
    }
    groups = [*suspicious_groups(spark, tables, suspicious, window)]
    known = frame_of(spark, _GROUPS, [(group, True) for group in groups])
    others = frame_of(
        spark, _MEMBERS, [(capture, group, member) for capture, group, member, of_group in told if not of_group]
    )
    members = (
        members_of(tables, beats.members, others, names)
        .join(F.broadcast(known), "group", "left")
        .where("known is null")
    )
    suspect = F.collect_list(F.when(F.col("suspicious"), F.col("member")))
    clean = F.sum(F.when(~F.col("suspicious"), F.col("sessions")).otherwise(0))
    rows = [*collected(members.groupBy("capture").agg(suspect, clean))]
    suspects = Suspects(groups, [member for _, found, _ in rows for member in found])
    return Screened(suspects, {capture: sessions for capture, _, sessions in rows})

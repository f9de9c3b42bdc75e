"""Whose exchanges have to be read at all: a superset of those of whom there is something to say, told by typed columns alone.

A group passes unseen when its records in flight are as plain as can be (spark_analysis.screen.records); then its members are told apart:
one passes whose share sessions (.sessions) and heartbeats (.heartbeats) are. What is plain stands there; triggers and conditions come
from the rules' rows. Of a machine that has no screen nobody knows, and everybody's exchanges are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from kshark.analysis.machines import IN_FLIGHT, MEMBER, PERSISTER, SESSION
from kshark.analysis.rules import BOOK
from spark_analysis.rows import collected, frame_of
from spark_analysis.screen.heartbeats import heartbeats_of
from spark_analysis.screen.records import suspicious_groups
from spark_analysis.screen.sessions import members_of

if TYPE_CHECKING:
    from spark_analysis.tables import Tables

_SCREENED: Final = frozenset({SESSION, MEMBER, IN_FLIGHT, PERSISTER})
_GROUPS: Final = pa.schema([("group", pa.int64()), ("known", pa.bool_())])


class Suspects(NamedTuple):
    """Whose exchanges have to be read: by spark_analysis.screen.keys."""

    groups: list[int]
    members: list[int]


class Screened(NamedTuple):
    """`suspects` None: everybody; `clean`: by capture, the sessions of all others."""

    suspects: Suspects | None
    clean: dict[str, int]


#: Nobody passes unseen.
EVERYBODY: Final = Screened(None, {})


def screened(tables: Tables, names: Mapping[tuple[str, str], str], window: int) -> Screened:
    """`names`: of brokers with several addresses, by capture and address the one that stands for all; `window`: so many offsets of a
    partition in flight may keep a fetch waiting."""
    if not _SCREENED.issuperset(BOOK.machines):
        return EVERYBODY
    beats = heartbeats_of(tables)
    groups = [group for (group,) in collected(suspicious_groups(tables, window).unionByName(beats.groups).select("group").distinct())]
    known = frame_of(tables["exchanges"].sparkSession, _GROUPS, [(group, True) for group in groups])
    members = members_of(tables, beats.members, names).join(F.broadcast(known), "group", "left").where("known is null")
    suspect = F.collect_list(F.when(F.col("suspicious"), F.col("member")))
    clean = F.sum(F.when(~F.col("suspicious"), F.col("sessions")).otherwise(0))
    rows = [*collected(members.groupBy("capture").agg(suspect, clean))]
    suspects = Suspects(groups, [member for _, found, _ in rows for member in found])
    return Screened(suspects, {capture: sessions for capture, _, sessions in rows})

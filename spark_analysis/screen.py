"""Which members can have a finding at all: a superset, told by typed columns alone, so that nobody reads the others' exchanges.

A member passes unseen only when each of its share sessions is as plain as can be: on one connection, opened at most once and first, each
request accepted with the epoch due, and at the end closed by -1, or still open when the capture ends; and when no rule's row names a
trigger that holds, nor a condition on its requests. What is plain stands here, triggers and conditions come from the rows. A row of
`share_requests` knows the epoch before it: rows are counted where they lie, and only sums are shuffled.

Members whose exchanges are judged together (`bucket_key`: those of a group, where a rule's machine is the group's) pass together.

A machine that has no screen and reads share requests, as that of records in flight does, lets nobody pass: then nothing is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from kshark.analysis import APIS
from kshark.analysis.rules import BOOK
from kshark.analysis.sessions.steps import LEAVING
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.conditions import Condition
from kshark.conditions import F as Field
from kshark.conditions.partial import widened
from kshark.tables.share import ONLY_LISTS
from spark_analysis.rows import collected, frame_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.tables import Tables

_NAME: Final = pa.schema([("capture", pa.string()), ("broker", pa.string()), ("name", pa.string())])
_SHARE: Final = (SHARE_FETCH, SHARE_ACKNOWLEDGE)
#: Fields of a share request, by columns of its row; fields of any request, and of any answer, in `exchanges`.
_ASKED: Final = {
    "share_session_epoch": "epoch", "group_id": "group_id", "member_id": "member_id", "max_wait_ms": "max_wait_ms",
    "max_records": "max_records", "is_renew_ack": "renew", "only_lists": "only_lists",
}  # fmt: skip
_ASKED_ANYWHERE: Final = {"group_id": "group_id", "member_id": "member_id"}
_ANSWERED: Final = {"error_code": "error_code"}
#: What columns say that are no fields.
_KNOWN: Final[Mapping[Condition, Condition]] = {ONLY_LISTS: Field("only_lists").is_true()}


class Screened(NamedTuple):
    """`suspects`: whose exchanges have to be read, by `bucket_key` (None: everybody's); `clean`: by capture, the sessions of all others."""

    suspects: list[int] | None
    clean: dict[str, int]


#: Nobody passes unseen.
EVERYBODY: Final = Screened(None, {})


def screened(tables: Tables, names: Mapping[tuple[str, str], str]) -> Screened:
    """`names`: of brokers with several addresses, by capture and address the one that stands for all."""
    if not BOOK.visited.isdisjoint(_SHARE):
        return EVERYBODY
    sessions = tables["share_requests"].transform(lives).transform(sessions_of, with_one_name(tables["flows"], names))
    told = sessions.unionByName(others(tables)).transform(together)
    suspect = F.collect_list(F.when(F.col("suspicious"), F.col("key")))
    clean = F.sum(F.when(~F.col("suspicious"), F.col("sessions")).otherwise(0))
    rows = [*collected(told.groupBy("capture").agg(suspect, clean))]
    return Screened([key for _, suspects, _ in rows for key in suspects], {capture: sessions for capture, _, sessions in rows})


def bucket_key() -> Column:
    """A number for what has to be judged together; where two of a capture have the same, both are suspicious or none."""
    return F.xxhash64("capture", *BOOK.bucket)


def odd() -> Column:
    """Whether a row of `exchanges` has a code that rules name."""
    codes = F.array(*map(F.lit, BOOK.weirds))
    return _any_of(F.arrays_overlap(f"{kind}_weird", codes) for kind in ("request", "response"))


def lives(requests: DataFrame) -> DataFrame:
    """What members did on each of their connections, a row each. `odd`: a plain session has no such request."""
    epoch, previous, error = F.col("epoch"), F.col("previous_epoch"), F.col("error_code")
    unanswered = F.col("outcome") == "unanswered"
    odd = (
        epoch < -1,
        (error.isNull() & ~unanswered) | (error != 0),
        (epoch == 0) & (previous.isNotNull() | (F.col("api_key") != SHARE_FETCH)),
        (epoch > 0) & (epoch != previous.cast("bigint") + 1),
        previous < 0,
        (epoch == -1) & unanswered,
        _broken(_SHARE, _ASKED),
    )
    api_key = F.when(F.col("api") == "ShareFetch", SHARE_FETCH).otherwise(SHARE_ACKNOWLEDGE)
    return (
        requests.where("epoch is not null")
        .withColumn("api_key", api_key)
        .transform(_with_fields, _ASKED)
        .withColumns({**_keys(), "odd": _any_of(odd), "unanswered": unanswered})
        .groupBy("flow_id", *_keys())
        .agg(
            F.max("odd").alias("odd"),
            F.count_if(previous.isNull()).alias("firsts"),
            F.max(epoch == 0).alias("opened"),
            F.max(epoch == -1).alias("closed"),
            F.max("epoch").alias("last"),
            F.count_if("unanswered").alias("unanswered"),
            F.max(F.when(F.col("unanswered"), epoch)).alias("waiting"),
            F.max(F.size("forgotten") > 0).alias("forgotten"),
            F.max("repeats").alias("repeats"),
            F.max("acknowledges_new").alias("acknowledges_new"),
        )
    )


def with_one_name(flows: DataFrame, names: Mapping[tuple[str, str], str]) -> DataFrame:
    """Connections, each with its broker's address, or the one that stands for all of them."""
    if not names:
        return flows
    known = F.broadcast(frame_of(flows.sparkSession, _NAME, [(*address, name) for address, name in names.items()]))
    return flows.join(known, ["capture", "broker"], "left").withColumn("broker", F.coalesce("name", "broker"))


def sessions_of(lives: DataFrame, flows: DataFrame) -> DataFrame:
    """Sessions, `suspicious` or not, and whether they were `open` when the capture ended."""
    client_left = _any_of([F.col("half_closed_by") == "client", F.col("closed_by") == "client"])
    known = flows.select("capture", "flow_id", "broker", client_left.alias("client_left"))
    waits_longer = (F.col("waiting") < F.col("last")) | F.col("closed") | (F.col("unanswered") > 1)
    suspicious = (
        F.col("odd"),
        (F.col("unanswered") > 0) & waits_longer,
        ~F.col("closed") & F.col("client_left"),
        *(F.expr(trigger.sql) for trigger in BOOK.triggers),
    )
    flags = ("odd", "opened", "closed", "forgotten", "repeats", "acknowledges_new", "client_left")
    most = [F.max(name).alias(name) for name in (*flags, "last", "waiting")]
    summed = [F.sum(name).alias(name) for name in ("firsts", "unanswered")]
    return (
        lives.join(known, "flow_id")
        .groupBy("capture", *_keys(), "broker")
        .agg(*most, *summed)
        .withColumn("elsewhere", F.col("firsts") > 1)
        .withColumn("acknowledges_alone", F.col("opened") & F.col("acknowledges_new"))
        .select(*_told(sessions=F.lit(1), suspicious=_any_of(suspicious), open=~F.col("closed")))
    )


def others(tables: Tables) -> DataFrame:
    """The same of members for other reasons: they left the group; a request of theirs could not be read, carries a code that rules name, or
    breaks a rule by itself; or rules of a machine that has no screen look at it."""
    exchanges, requests, heartbeats = tables["exchanges"], tables["share_requests"], tables["heartbeats"]
    ruled = frozenset(api_key for rule in BOOK.of_exchanges for api_key in rule.apis if api_key not in _SHARE)
    broken = F.col("api_key").isin(*BOOK.visited) | _broken(ruled, _ASKED_ANYWHERE)
    left = heartbeats.where((F.col("group_type") == "share") & (F.col("member_epoch") == LEAVING))
    asked = exchanges.where(F.col("api_key").isin(*ruled, *BOOK.visited)).transform(_with_fields, _ASKED_ANYWHERE)
    suspicious = _told(suspicious=F.lit(True))
    rows = (
        asked.where(broken).withColumns(_keys()).select(*suspicious),
        exchanges.where(odd() & F.col("api_key").isin(*APIS)).withColumns(_keys()).select(*suspicious),
        requests.where("epoch is null").withColumns(_keys()).select(*suspicious),
        left.withColumns(_keys()).select(*_told(left=F.lit(True))),
    )
    return reduce(lambda one, two: one.unionByName(two), rows)


def together(told: DataFrame) -> DataFrame:
    """By key the number of sessions, and whether anything about any of them is suspicious, or a member left with one open."""
    flags = [F.max(name).alias(name) for name in ("suspicious", "open", "left")]
    suspicious = F.max(F.col("suspicious") | (F.col("open") & F.col("left"))).alias("suspicious")
    members = told.groupBy("capture", *_keys()).agg(F.sum("sessions").alias("sessions"), *flags)
    return members.groupBy("capture", "key").agg(F.sum("sessions").alias("sessions"), suspicious)


def _keys() -> dict[str, Column]:
    """Numbers for a member of a capture, and for what it is judged together with."""
    return {"member": F.xxhash64("capture", "group_id", "member_id"), "key": bucket_key()}


def _told(**told: Column) -> list[Column]:
    """The columns of what is told of members: zero and false but for what is given."""
    none = {"sessions": F.lit(0), "suspicious": F.lit(False), "open": F.lit(False), "left": F.lit(False)}
    return [F.col("capture"), *map(F.col, _keys()), *(column.alias(name) for name, column in (none | told).items())]


def _any_of(columns: Iterable[Column]) -> Column:
    """Whether one of them is true."""
    return reduce(or_, (F.coalesce(column, F.lit(False)) for column in columns), F.lit(False))


# -- rules of one exchange


def _with_fields(rows: DataFrame, asked: Mapping[str, str]) -> DataFrame:
    """Adds `asked` and `answered`: of both bodies the fields that columns have."""
    bodies = {"asked": asked, "answered": _ANSWERED}
    return rows.withColumns({body: F.struct(*(F.col(name).alias(field) for field, name in of.items())) for body, of in bodies.items()})


def _broken(apis: Collection[int], asked: Mapping[str, str]) -> Column:
    """Whether a request may break such a rule and its answer show it, as far as the columns tell that have fields of theirs."""
    return _any_of(
        (F.col("api_key") == api_key) & _may_hold("asked", rule.broken_by, asked) & _may_hold("answered", rule.answer, _ANSWERED)
        for rule in BOOK.of_exchanges
        for api_key in rule.apis
        if api_key in apis
    )


def _may_hold(body: str, condition: Condition | None, fields: Mapping[str, str]) -> Column:
    return F.lit(True) if condition is None else F.expr(widened(condition, fields, _KNOWN).sql(body, "api_version"))

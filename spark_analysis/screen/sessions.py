"""Which members may have something to say of their share sessions, or of single exchanges.

A member passes where each of its sessions is as plain as can be: on one connection, opened at most once and first, each request accepted
with the epoch due, and at the end closed by -1, or still open when the capture ends; and where no rule's row names a trigger that holds,
nor a condition on its requests. A row of `share_requests` knows the epoch before it: rows are counted where they lie, and only sums are
shuffled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F

from kshark.analysis import APIS
from kshark.analysis.rules import BOOK
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.conditions import Condition
from kshark.conditions import F as Field
from kshark.conditions.partial import widened
from kshark.tables.share import ONLY_LISTS
from spark_analysis.rows import frame_of
from spark_analysis.screen.keys import any_of, keys, odd

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.tables import Tables

#: What is told of a member by heartbeats: see spark_analysis.screen.heartbeats.
BEATS: Final = ("suspicious", "left", "assigned", "least")
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


def members_of(tables: Tables, beats: DataFrame, names: Mapping[tuple[str, str], str]) -> DataFrame:
    """Members by `capture`, `group` and `member`: their sessions, and whether anything about them is suspicious; `beats`: what heartbeats
    tell of them."""
    sessions = tables["share_requests"].transform(lives).transform(sessions_of, with_one_name(tables["flows"], names))
    told = sessions.unionByName(others(tables)).unionByName(beats.select(*_told(**{name: F.col(name) for name in BEATS})))
    return told.transform(together)


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
        .withColumns({**keys(), "odd": any_of(odd), "unanswered": unanswered})
        .groupBy("flow_id", *keys())
        .agg(
            F.max("odd").alias("odd"),
            F.count_if(previous.isNull()).alias("firsts"),
            F.max(epoch == 0).alias("opened"),
            F.max(epoch == -1).alias("closed"),
            F.max("epoch").alias("last"),
            F.count_if("unanswered").alias("unanswered"),
            F.max(F.when(F.col("unanswered"), epoch)).alias("waiting"),
            F.max(F.size("forgotten") > 0).alias("forgotten"),
            F.max(F.when(epoch >= 0, F.col("packet"))).alias("latest"),
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
    client_left = any_of([F.col("half_closed_by") == "client", F.col("closed_by") == "client"])
    known = flows.select("capture", "flow_id", "broker", client_left.alias("client_left"))
    waits_longer = (F.col("waiting") < F.col("last")) | F.col("closed") | (F.col("unanswered") > 1)
    suspicious = (
        F.col("odd"),
        (F.col("unanswered") > 0) & waits_longer,
        ~F.col("closed") & F.col("client_left"),
        *(F.expr(trigger.sql) for trigger in BOOK.triggers),
    )
    flags = ("odd", "opened", "closed", "forgotten", "repeats", "acknowledges_new", "client_left")
    most = [F.max(name).alias(name) for name in (*flags, "last", "latest", "waiting")]
    summed = [F.sum(name).alias(name) for name in ("firsts", "unanswered")]
    return (
        lives.join(known, "flow_id")
        .groupBy("capture", "group", "member", "broker")
        .agg(*most, *summed)
        .withColumn("elsewhere", F.col("firsts") > 1)
        .withColumn("acknowledges_alone", F.col("opened") & F.col("acknowledges_new"))
        .select(*_told(sessions=F.lit(1), suspicious=any_of(suspicious), open=~F.col("closed"), latest=F.col("latest")))
    )


def others(tables: Tables) -> DataFrame:
    """The same of members for other reasons: a request of theirs carries a code that rules name, or breaks a rule by itself."""
    ruled = frozenset(api_key for rule in BOOK.of_exchanges for api_key in rule.apis if api_key not in _SHARE)
    exchanges = tables["exchanges"].where(F.col("api_key").isin(*APIS)).transform(_with_fields, _ASKED_ANYWHERE)
    return exchanges.where(_broken(ruled, _ASKED_ANYWHERE) | odd()).withColumns(keys()).select(*_told(suspicious=F.lit(True)))


def together(told: DataFrame) -> DataFrame:
    """By member the number of sessions, and whether anything about any of them is suspicious: also that one was left open, or gone on with,
    when the member left its group; or that it lists what was not assigned to it."""
    most = [F.max(name).alias(name) for name in ("suspicious", "open", "latest", "assigned")]
    least = [F.min(name).alias(name) for name in ("left", "least")]
    odd = (
        F.col("suspicious"),
        F.col("open") & F.col("left").isNotNull(),
        F.col("latest") > F.col("left"),
        F.col("least") < F.col("assigned"),
    )
    members = told.groupBy("capture", "group", "member").agg(F.sum("sessions").alias("sessions"), *most, *least)
    return members.withColumn("suspicious", any_of(odd))


def _told(**told: Column) -> list[Column]:
    """The columns of what is told of members: zero, false and null but for what is given."""
    nothing = F.lit(None).cast("bigint")
    none = {"sessions": F.lit(0), "suspicious": F.lit(False), "open": F.lit(False)}
    none |= dict.fromkeys(("latest", "left", "assigned", "least"), nothing)
    return [F.col(name) for name in ("capture", "group", "member")] + [column.alias(name) for name, column in (none | told).items()]


# -- rules of one exchange


def _with_fields(rows: DataFrame, asked: Mapping[str, str]) -> DataFrame:
    """Adds `asked` and `answered`: of both bodies the fields that columns have."""
    bodies = {"asked": asked, "answered": _ANSWERED}
    return rows.withColumns({body: F.struct(*(F.col(name).alias(field) for field, name in of.items())) for body, of in bodies.items()})


def _broken(apis: Collection[int], asked: Mapping[str, str]) -> Column:
    """Whether a request may break such a rule and its answer show it, as far as the columns tell that have fields of theirs."""
    return any_of(
        (F.col("api_key") == api_key) & _may_hold("asked", rule.broken_by, asked) & _may_hold("answered", rule.answer, _ANSWERED)
        for rule in BOOK.of_exchanges
        for api_key in rule.apis
        if api_key in apis
    )


def _may_hold(body: str, condition: Condition | None, fields: Mapping[str, str]) -> Column:
    return F.lit(True) if condition is None else F.expr(widened(condition, fields, _KNOWN).sql(body, "api_version"))

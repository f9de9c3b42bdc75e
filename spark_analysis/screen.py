"""Which members can have a finding at all: a superset, by window functions, so that the machine need not look at the others.

A member passes unseen only when each of its share sessions is as plain as can be: opened at most once and first, each request accepted with
the epoch due, and at the end closed by -1, or still open when the capture ends; and when no rule's row names a trigger that holds, nor a
condition on its requests. What is plain stands here, triggers and conditions come from the rows.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshark.analysis import RULES
from kshark.analysis.machines import SESSION
from kshark.analysis.rules import BOOK
from kshark.analysis.steps import LAST_EPOCH
from kshark.api_keys import SHARE_FETCH
from spark_analysis.bodies import broken, request_type, ruled_apis
from spark_analysis.steps import BUCKET, MEMBER, TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What the screen itself reads of a share request's body.
_SHARE_REQUEST: Final = """
    share_session_epoch int,
    topics array<struct<topic_id: string, partitions: array<struct<
        partition_index: int, acknowledgement_batches: array<struct<first_offset: bigint>>>>>>,
    forgotten_topics_data array<struct<topic_id: string>>
"""


def screened(steps: DataFrame) -> DataFrame:
    """The steps of members that can have a finding, and what is common to all; of the others one row per session, `clean`, to be
    counted."""
    return (
        judged(steps)
        .where("kind = 'common' or suspicious or clean")
        .withColumn("exchanges", F.when(~F.col("clean"), F.col("exchanges")))
        .select(*BUCKET, *TIME, "clean", "exchanges", "flows", "weirds")
    )


def judged(steps: DataFrame) -> DataFrame:
    """Every step, with what makes its member suspicious."""
    return (
        steps.transform(with_request)
        .transform(with_broken)
        .transform(with_due_epoch)
        .transform(with_odd_requests)
        .transform(with_suspicion)
    )


def with_request(steps: DataFrame) -> DataFrame:
    """Adds of a share request: its `epoch`, the partitions `listed`, those of them `acknowledged`, whether any are `forgotten`, and whether
    one is listed twice (`repeats`)."""
    share = F.when(F.col("kind") == "share", F.from_json("exchanges.request_json", _SHARE_REQUEST))
    pairs = (
        "flatten(transform(body.topics, t -> transform(t.partitions, p -> "
        "struct(concat_ws(':', t.topic_id, p.partition_index) as name, size(p.acknowledgement_batches) > 0 as acknowledged))))"
    )
    return (
        steps.withColumn("body", share)
        .withColumn("pairs", F.expr(pairs))
        .withColumn("epoch", F.col("body.share_session_epoch"))
        .withColumn("listed", F.expr("coalesce(transform(pairs, p -> p.name), array())"))
        .withColumn("acknowledged", F.expr("coalesce(transform(filter(pairs, p -> p.acknowledged), p -> p.name), array())"))
        .withColumn("forgotten", F.size("body.forgotten_topics_data") > 0)
        .withColumn("repeats", F.size("listed") != F.size(F.array_distinct("listed")))
        .drop("body", "pairs")
    )


def with_broken(steps: DataFrame) -> DataFrame:
    """Adds `broken`: a condition of a rule of one exchange holds for the request."""
    conditions = []
    for api_key in sorted(ruled_apis()):
        column = f"request_{api_key}"
        body = F.from_json("exchanges.request_json", request_type(api_key))
        steps = steps.withColumn(column, F.when(F.col("exchanges.api_key") == api_key, body))
        conditions.append(F.col(column).isNotNull() & F.expr(broken(RULES, api_key, column, "exchanges.api_version")))
    columns = [f"request_{api_key}" for api_key in ruled_apis()]
    return steps.withColumn("broken", reduce(or_, conditions, F.lit(False))).drop(*columns)


def with_due_epoch(steps: DataFrame) -> DataFrame:
    """Adds `due`: the epoch that a simple session sends next (null before its first request); `opening`: the partitions of its first
    request if that opened it; whether this is its `first` or `last` request seen, and on another connection than the one before
    (`elsewhere`).
    """
    session = Window.partitionBy(*MEMBER, "broker").orderBy(*TIME)
    so_far = session.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    last = F.lag("epoch").over(session)
    return (
        steps.withColumn("first", F.row_number().over(session) == 1)
        .withColumn("last", F.lead("kind").over(session).isNull())
        .withColumn("due", F.when(last == LAST_EPOCH, F.lit(1)).when(last >= 0, last + 1))
        .withColumn("opening", F.first(F.when(F.col("epoch") == 0, F.col("listed"))).over(so_far))
        .withColumn("elsewhere", F.lag("flow_packet").over(session) != F.col("flow_packet"))
    )


def with_odd_requests(steps: DataFrame) -> DataFrame:
    """Adds `odd`: a plain session has no such request, or a rule may have something to say of it; `open`: a session's last request, which
    did not close it; `leave`: a heartbeat by which the member left the group."""
    epoch, error, first, last = F.col("epoch"), F.col("exchanges.error_code"), F.col("first"), F.col("last")
    fetch = F.col("exchanges.api_key") == SHARE_FETCH
    waits = last & (F.col("exchanges.outcome") == "unanswered")
    fetched = F.when(first & (epoch == 0), F.array().cast("array<string>")).otherwise(F.col("opening"))
    not_plain = (
        epoch.isNull() | (epoch < -1),
        (error.isNull() & ~waits) | (error != 0),
        (epoch == 0) & ~(first & fetch),
        (epoch > 0) & ~first & (F.col("due").isNull() | (epoch != F.col("due"))),
        (epoch == -1) & (waits | ~last),
        last & (epoch != -1) & F.col("client_left"),
    )
    alone = fetch & (F.size(F.array_except("acknowledged", fetched)) > 0)
    steps = steps.withColumn("acknowledges_alone", alone)
    odd = (*not_plain, *(F.expr(trigger.sql) for trigger in BOOK.triggers))
    judged = F.col("exchanges.api_key").isin(*_unscreened()) if _unscreened() else F.lit(False)
    return (
        steps.withColumn("odd", (F.col("kind") == "share") & reduce(or_, (F.coalesce(each, F.lit(False)) for each in odd)))
        .withColumn("odd", F.col("odd") | F.col("broken") | F.coalesce(judged, F.lit(False)))
        .withColumn("open", (F.col("kind") == "share") & last & (epoch != -1))
        .withColumn("leave", (F.col("kind") == "heartbeat") & (F.get_json_object("exchanges.request_json", "$.member_epoch") == "-1"))
    )


def _unscreened() -> frozenset[int]:
    """APIs that a machine without a screen of its own looks at: whoever speaks them is suspicious."""
    machines = [machine for machine in BOOK.machines if machine is not SESSION]
    return frozenset().union(*(machine.apis for machine in machines))


def with_suspicion(steps: DataFrame) -> DataFrame:
    """Adds `suspicious`: anything odd about any of the member's sessions, or it left with one open; `clean`: the first request of a
    session that is not suspicious.
    """
    member = Window.partitionBy(*BUCKET, "group_id", "member_id")
    odd, is_open, leave = (F.coalesce(F.max(column).over(member), F.lit(False)) for column in ("odd", "open", "leave"))
    return (
        steps.withColumn("suspicious", odd | (is_open & leave))
        .withColumn("suspicious", F.col("suspicious") & (F.col("kind") != "common"))
        .withColumn("clean", (F.col("kind") == "share") & F.col("first") & ~F.col("suspicious"))
    )

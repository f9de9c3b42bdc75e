"""Names of the topics in findings, as far as a capture's exchanges contain them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kshark.model import Ends, Flow, Message
from kshark.names import TopicNames
from kshark.registry import Registry
from kshark.tables.bodies import Bodies
from kshark.tables.events import Course, TimePosition, first_packet_of, messages_of, of_exchange
from kshark_dissectors.topics import NAMING_APIS
from kshark_spark.steps import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The endpoints of an exchange are irrelevant here.
_NOBODY: Final = Ends("", "")


def topic_names(
    exchanges: DataFrame, asked: Mapping[str, Set[str]], courses: Mapping[str, Mapping[int, Course]]
) -> dict[str, dict[str, str]]:
    """Return the names of the topic ids in `asked` by capture. The driver receives only exchanges with such an id.

    `courses`: the courses of connections, by their first packets.
    """
    ids = set[str]().union(*asked.values())
    if not ids:
        return {}
    pattern = "|".join(map(re.escape, sorted(ids)))
    naming = exchanges.where(F.col("api_key").isin(*NAMING_APIS))
    with_id = naming.where(F.concat_ws(" ", "request_json", "response_json").rlike(pattern))
    bodies = Bodies()
    names = {capture: TopicNames(Registry()) for capture in asked}
    messages = list[tuple[TimePosition, str, Message]]()
    for row in table_of(with_id, "find names of topics").to_pylist():
        capture, first = row["capture"], first_packet_of(row["flow_id"])
        flow = Flow(first, _NOBODY, first, 0)
        events = of_exchange(row, messages_of(row, flow, bodies), flow, courses[capture][first])
        messages += ((place, capture, event) for place, event in events if isinstance(event, Message))
    for _, capture, message in sorted(messages, key=itemgetter(0)):
        names[capture].learn(message)
    return {capture: {id: own.by_id[id] for id in asked[capture] if id in own.by_id} for capture, own in names.items()}

"""Names of the topics that findings are about, as far as a capture's exchanges told them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from dissectors.topics import NAMING_APIS
from kshark.model import Ends, Flow
from kshark.names import TopicNames
from kshark.registry import Registry
from kshark.tables.bodies import Bodies
from kshark.tables.events import messages_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Whose exchange it was does not matter.
_SOMEBODY: Final = Flow(0, Ends("", ""), 0, 0)


def topic_names(exchanges: DataFrame, asked: Mapping[str, Set[str]]) -> dict[str, dict[str, str]]:
    """By capture, the names of the topic ids that are `asked` for; only the exchanges that tell one come to the driver."""
    ids = set[str]().union(*asked.values())
    if not ids:
        return {}
    any_of_them = "|".join(map(re.escape, sorted(ids)))
    telling = (
        exchanges.where(F.col("api_key").isin(*NAMING_APIS))
        .where(F.concat_ws(" ", "request_json", "response_json").rlike(any_of_them))
        .toArrow()
        .to_pylist()
    )
    bodies = Bodies()
    names = {capture: TopicNames(Registry()) for capture in asked}
    messages = [(message.packet, row["capture"], message) for row in telling for message in messages_of(row, _SOMEBODY, bodies) if message]
    for _, capture, message in sorted(messages, key=lambda told: told[0]):
        names[capture].learn(message)
    return {capture: {id: known.known[id] for id in asked[capture] if id in known.known} for capture, known in names.items()}

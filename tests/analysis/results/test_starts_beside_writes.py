"""The start offset that is shown, beside what the leader of a real broker stores for a group with read_committed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kshark.analysis import Analyzer, InFlightState
from kshark.api_keys import WRITE_SHARE_GROUP_STATE
from kshark.face import pages
from kshark.model import Exchange
from kshark.pipeline import JUDGED
from tests.shared import CAPTURES


def compared(path: Path) -> Counter[str]:
    """Return how many writes stored the start offset that was shown right before, another one, or an unknown one."""
    analyzer, counts = Analyzer(transactions=True), Counter[str]()
    for event in (event for page in pages([path], JUDGED) for event in page):
        request = event.request if isinstance(event, Exchange) else None
        if request is not None and request.api_key == WRITE_SHARE_GROUP_STATE:
            states = {(it.group_id, it.topic_id, it.partition): it for it in analyzer.in_flight(request.time_ns)}
            for topic in request.body.topics:
                for row in topic.partitions:
                    state = states[request.body.group_id, topic.topic_id, row.partition]
                    counts[_beside(state, row.start_offset)] += 1
        analyzer.feed(event)
    return counts


def _beside(state: InFlightState, stored: int) -> str:
    if state.start_offset is not None:
        return "equal" if state.start_offset == stored else "different"
    return "unknown" if state.start_least is not None and state.start_least <= stored else "different"


@pytest.mark.parametrize(
    ("capture", "equal", "unknown"),
    [
        ("share-java-explicit.pcap", 124, 0),
        ("share-java-implicit-4.2.1.pcap", 47, 0),
        # Where aborted records follow those in flight, only the leader knows if it has taken them out.
        ("transactions/aborts-4.4.0.pcap.gz", 106, 34),
    ],
)
def test_it_is_what_the_leader_stores(capture: str, equal: int, unknown: int) -> None:
    assert compared(CAPTURES / capture) == Counter(equal=equal, unknown=unknown)

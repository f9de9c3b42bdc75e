"""What is kept of requests that were answered long ago: little, however many there were."""

from __future__ import annotations

import tracemalloc
from typing import Any

from kshark.exchange.open_requests import ByCorrelationId, OpenRequest

NOTHING: Any = None


def test_who_never_answers_the_first_request_fills_no_memory() -> None:
    """Correlation ids fall, one request stays open, all others are answered at once; each of their ids is looked for
    twice."""
    by_id, waiting = ByCorrelationId(), [OpenRequest(NOTHING, NOTHING, 1_000_000)]
    tracemalloc.start()
    try:
        for number in range(1, 20_000):
            wanted = 1_000_000 - number
            assert by_id.index_of(waiting, wanted) is None
            waiting.append(OpenRequest(NOTHING, NOTHING, wanted, number=number))
            assert by_id.index_of(waiting, wanted) == 1
            del waiting[1]
        assert tracemalloc.get_traced_memory()[0] < 50_000
    finally:
        tracemalloc.stop()
    assert by_id.index_of(waiting, 1_000_000) == 0

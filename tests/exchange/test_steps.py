"""How often requests that wait for their answer are looked at."""

from __future__ import annotations

from tests.exchange.test_stage import Talk, answer, metadata
from tests.test_guard import counting


def test_answers_in_reverse_order_cost_no_more_where_many_requests_are_open() -> None:
    def calls(count: int) -> float:
        talk = Talk()
        talk.tcp.client(b"".join(map(metadata, range(count))))
        talk.tcp.broker(b"".join(map(answer, reversed(range(count)))))
        with counting() as counts:
            assert talk.exchanges() == [("answered", number, number) for number in reversed(range(count))]
        return counts["calls"] / count

    calls(10)  # decoders are compiled
    assert calls(800) < 1.2 * calls(100)

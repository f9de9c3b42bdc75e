"""The latency of each API, from Arrow tables in memory: python examples/slow_requests.py trace.pcap..."""

from __future__ import annotations

import sys

import pyarrow.compute as pc

import kshark


def latencies(*captures: str) -> dict[str, tuple[int, float]]:
    """Return for each API the number of answered requests, and the longest latency in milliseconds."""
    exchanges = kshark.tables(*captures, only=["exchanges"])["exchanges"]
    answered = exchanges.filter(pc.field("outcome") == "answered")
    rows = answered.group_by("api").aggregate([("latency_ns", "count"), ("latency_ns", "max")]).to_pylist()
    return {row["api"]: (row["latency_ns_count"], row["latency_ns_max"] / 1e6) for row in rows}


if __name__ == "__main__":
    for api, (count, longest_ms) in sorted(latencies(*sys.argv[1:]).items(), key=lambda item: -item[1][1]):
        print(f"{longest_ms:10.3f} ms  {count:6}  {api}")

"""Metrics of a running capture for Prometheus: pages and findings in, answers to scrapes out.

`families.py` has a row for each metric, `counts.py` counts, `limited.py` limits the number of series, `exposition.py`
writes them, `server.py` answers HTTP requests, and `consumer.py` joins them.
"""

from __future__ import annotations

from kshark.live.metrics.consumer import Metrics
from kshark.live.metrics.families import OPTIONAL
from kshark.live.metrics.server import Address, address

__all__ = ["OPTIONAL", "Address", "Metrics", "address"]

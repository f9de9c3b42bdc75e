"""The brokers' request logs as witness: `python -m tests.witness CAPTURE...` prints the comparison as a table."""

from tests.witness.compare import Comparison, compare, log_of
from tests.witness.values import snake

__all__ = ["Comparison", "compare", "log_of", "snake"]

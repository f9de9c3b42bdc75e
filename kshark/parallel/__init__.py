"""One capture, several processes: the time line is made in one, its messages are decoded and shown in others, and put in order again.

Connections meet in link, reassembly, recognition and the time line only; behind it each is on its own. So the first process does those,
every other one decodes a share of the connections (kshark.parallel.shares), and what is said of their messages goes back into the time
line (kshark.parallel.merging). What one connection's messages teach about others' (names of topic ids, widths of columns) the first
process learns ahead and tells (kshark.parallel.lessons); where that hardly ever matters, it watches (kshark.parallel.crossings). Who
needs all connections in one place decodes in one other process (kshark.parallel.relay).

Not one byte of the output depends on the number of processes.
"""

from kshark.parallel.crew import Crew
from kshark.parallel.crossings import Crossed, telling_names
from kshark.parallel.lessons import Learner
from kshark.parallel.merging import Merged, Parallel
from kshark.parallel.printed import Bytes, Printed
from kshark.parallel.relay import Follower, Passed, Relay, followed
from kshark.parallel.worker import Maker, Worker

__all__ = [
    "Bytes", "Crew", "Crossed", "Follower", "Learner", "Maker", "Merged", "Parallel", "Passed", "Printed", "Relay", "Worker", "followed",
    "telling_names",
]  # fmt: skip

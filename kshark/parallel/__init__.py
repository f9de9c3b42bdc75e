"""One capture, several processes: the time line is made in one, its messages are decoded and shown in others, and stay in order.

Connections meet in link, reassembly, recognition and the time line only. So the first process does those and hands the time line out,
batch by batch, each to the process that has the fewest to do (kshark.parallel.turns): one large connection is shared like a thousand
small ones. Where all have enough it decodes a batch itself: N processes keep N cores busy, and no core has two of them. What a batch
needs of those before it (open requests, names of topic ids, widths of columns) the first process reads ahead (kshark.parallel.ahead).
Who needs all connections in one place decodes in one other process (kshark.parallel.relay).

Not one byte of the output depends on the number of processes.
"""

from kshark.parallel.ahead import Ahead
from kshark.parallel.crew import Crew
from kshark.parallel.relay import Follower, Passed, Relay, followed
from kshark.parallel.turns import ALWAYS, Turns
from kshark.parallel.worker import Maker, Worker

__all__ = ["ALWAYS", "Ahead", "Crew", "Follower", "Maker", "Passed", "Relay", "Turns", "Worker", "followed"]

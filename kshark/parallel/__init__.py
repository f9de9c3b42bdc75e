"""One capture, several processes: one builds the time line, all decode its messages, and the output stays in order.

Where connections meet (link, reassembly, recognition, the time line) there is one process, the first. It hands the time
line out batch by batch, each to the worker with the shortest queue (kshark.parallel.scheduler), so that one large
connection is shared out like a thousand small ones. Where every queue is full it decodes a batch itself: N processes
keep N cores busy. What decoding a batch needs from the batches before it (open requests, names of topic ids, widths of
columns) the first process finds out (kshark.parallel.lookahead). Commands that need all connections in one place
(check, export) decode in one other process (kshark.parallel.forwarding).

Where processes share no memory (Spark), a capture is cut three times: ranges of packets (kshark.capture.ranges) become
segments, shares of connections (segments, decoding) become exchanges, and buckets of members (sorting, judging) are
judged.

Not one byte of the output depends on the number of processes.
"""

from kshark.parallel.forwarding import Forwarded, Forwarder, Receiver, pipelined
from kshark.parallel.lookahead import Lookahead, Measure
from kshark.parallel.pool import WorkerPool
from kshark.parallel.scheduler import ALWAYS, Scheduler
from kshark.parallel.worker import Renderer, Worker

__all__ = [
    "ALWAYS",
    "Forwarded",
    "Forwarder",
    "Lookahead",
    "Measure",
    "Receiver",
    "Renderer",
    "Scheduler",
    "Worker",
    "WorkerPool",
    "pipelined",
]

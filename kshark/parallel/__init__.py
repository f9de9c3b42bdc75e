"""Parallel processing of one capture by processes that share no memory (Spark).

The capture is split three times: ranges of packets (kshark.capture.ranges) become segments, shares of connections
(segments, decoding) become exchanges, and buckets of members (sorting, judging) become findings. Findings do not depend
on the splits.
"""

"""Judge the exchanges of a capture in buckets, by tasks that share no memory (Spark).

Exchanges go to buckets of members (sorting), and each bucket is judged (judging). Findings do not depend on the number
of buckets.
"""

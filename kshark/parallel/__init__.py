"""One capture shared out where processes share no memory (Spark).

It is cut three times: ranges of packets (kshark.capture.ranges) become segments, shares of connections (segments,
decoding) become exchanges, and buckets of members (sorting, judging) are judged. Findings do not depend on the cuts."""

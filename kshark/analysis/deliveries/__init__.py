"""Records of share partitions: acquired, acknowledged, given back, and how often."""

"""Share partitions: their records in flight, their locks, and the state in the share coordinator."""

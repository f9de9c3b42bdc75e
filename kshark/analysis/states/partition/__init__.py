"""Share partitions: their records in flight, locks and what the share coordinator stores of them."""

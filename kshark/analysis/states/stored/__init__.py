"""The state of share partitions as their share coordinator stores it."""

"""The state of share partitions as stored by their share coordinator."""

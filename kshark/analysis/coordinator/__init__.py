"""Share coordinators: what they were told to store of share partitions, and what they tell of it."""

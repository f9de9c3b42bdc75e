"""What the capture says: calls and their answers, heartbeats, connections, brokers, the clock, missing bytes."""

"""Facts of the capture: calls and their answers, heartbeats, connections, brokers, the clock, missing bytes."""

"""Members of share groups: their possible states and what a heartbeat met."""

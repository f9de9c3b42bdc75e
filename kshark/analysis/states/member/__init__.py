"""Members of share groups: their possible states, and the situation of a heartbeat."""

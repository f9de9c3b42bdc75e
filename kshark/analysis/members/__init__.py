"""Members of share groups: their heartbeats, and what follows for what they may ask."""

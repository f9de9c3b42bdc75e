"""Share sessions: their possible states and what a request met."""

"""Share sessions: their possible states, and the situation of a request."""

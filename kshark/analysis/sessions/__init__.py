"""Share sessions: the states that each may be in, moved by its requests, and how they are listed."""

"""The state that a broker may hold, as sets of possible states."""

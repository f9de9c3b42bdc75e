"""Move states and ask rules."""

"""Decode structures inside bytes: the contents of a message's bytes fields and records, shown next to them."""

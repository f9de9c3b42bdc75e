"""How many examples a property is tried with: as many as it says, in `make test-quick` one of ten."""

from __future__ import annotations

from hypothesis import settings

#: hypothesis' own number of examples, of which others are shares.
WHOLE = settings().max_examples

settings.register_profile("quick", max_examples=WHOLE // 10)


def as_many(examples: int) -> int:
    """So many, or the share of them that `--hypothesis-profile=quick` asks for."""
    return -(-examples * settings().max_examples // WHOLE)

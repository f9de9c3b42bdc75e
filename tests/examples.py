"""Hypothesis profiles: all examples in `make test`, one of ten in `make test-quick`. Neither has a deadline, because a
busy machine is no failure."""

from __future__ import annotations

from hypothesis import settings

#: hypothesis' own number of examples, of which others are shares.
WHOLE = settings().max_examples

_ACTIVE = settings()  # "ci" where the environment says CI
settings.register_profile("whole", _ACTIVE, deadline=None)
settings.register_profile("quick", _ACTIVE, max_examples=WHOLE // 10, deadline=None)
settings.load_profile("whole")


def as_many(examples: int) -> int:
    """So many, or the share of them that `--hypothesis-profile=quick` asks for."""
    return -(-examples * settings().max_examples // WHOLE)

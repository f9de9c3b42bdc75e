"""Captures with a snap length accuse nobody whom the whole capture does not."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tests.fuzz.losses import FROM, loaded
from tests.thinning import added, findings_in, place_of


@pytest.mark.sweep(quick=6)
@pytest.mark.parametrize("name", sorted(FROM))
def test_a_snap_length_accuses_nobody(name: str) -> None:
    whole, known = loaded(name)
    random = Random(name)
    for snap in (random.randint(60, 130), random.randint(130, 400)):
        found = findings_in([replace(item, length=np.minimum(item.length, snap)) for item in whole.batches])
        assert not [(snap, it.code, place_of(it), it.argument) for it in added(known, found)]

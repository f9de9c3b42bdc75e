"""Stored states in their numbers: the longest unused ones give way."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from kshark import limits
from tests.analysis.coordinators import ACCEPTED, Sender
from tests.analysis.talks import codes
from tests.conversation import Conversation


@pytest.mark.parametrize(("partitions", "ranges", "told"), [(1, 100, 1), (2, 100, 0), (2, 3, 1), (2, 4, 0)])
def test_states_that_were_not_used_for_longest_are_forgotten(partitions: int, ranges: int, told: int) -> None:
    talk = Conversation()
    a, b = (Sender(talk.connection(), number) for number in range(2))
    for one in (a, b):
        one.read().given(0)
        one.write(0, (0, 4, ACCEPTED, 1), (6, 9, ACCEPTED, 1)).accepted()
    a.read(1).given(0)
    with patch.object(limits, "SHARE_PARTITIONS", partitions), patch.object(limits, "STORED_RANGES", ranges):
        found = codes(talk)
    assert found.count(("STATES_FORGOTTEN", "note")) == told
    assert (("STATE_LOST", "unknown") in found) == (not told)

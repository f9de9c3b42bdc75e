"""kshark against the brokers' own request logs: every exchange, both ways, field by field."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared import CAPTURES
from tests.witness import compare

#: Damaged on purpose, or half of it missing: the log knows more than the wire shows.
DAMAGED = ("tcp-var-mid", "tcp-var-missed", "tcp-var-oneside", "share-loss", "tcp-hostile", "hostile-records", "adv-frames")
LOGGED = sorted(path for path in CAPTURES.glob("*.pcap*") if path.with_suffix(".requests.jsonl.gz").exists() and path.stem not in DAMAGED)


@pytest.mark.parametrize("capture", LOGGED, ids=lambda path: path.stem)
def test_every_logged_exchange_is_read_as_the_broker_logged_it(capture: Path) -> None:
    result = compare(capture)
    assert result.different == []
    assert result.equal + result.only_logged.total() == result.logged

"""librdkafka's mock brokers counted their requests themselves: per broker and API, kshark finds as many on the wire."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kshark
from tests.shared import CAPTURES, SHARED

#: Begun in the middle, or against another broker than the mock: their summaries count other things.
OTHERWISE = ("midstream", "java-share-v2")
MORE = SHARED / "captures" / "librdkafka-mock"


def counted(summary: Path) -> bool:
    return summary.name.split(".")[0] not in OTHERWISE and "by_broker_apikey" in json.loads(summary.read_text()).get(
        "server_requests", {}
    )


BUNDLED = [path for path in sorted(CAPTURES.glob("*.summary.json")) if counted(path)]
FOUND = [
    *BUNDLED,
    *(
        path
        for path in sorted(MORE.glob("*.summary.json"))
        if counted(path) and path.name not in {p.name for p in BUNDLED}
    ),
]


@pytest.mark.parametrize("summary", FOUND, ids=lambda path: path.name.split(".")[0])
def test_requests_are_as_many_as_the_brokers_counted(summary: Path) -> None:
    told: dict[str, Any] = json.loads(summary.read_text())
    brokers = {address: str(number) for number, address in enumerate(told["brokers"].split(","), 1)}
    read = Counter(
        f"{brokers[message.broker]}/{message.api_key}"
        for message in kshark.read(next(summary.parent.glob(f"{summary.name.split('.')[0]}.pcap*")), records=False)
        if message.kind == "request"
    )
    assert dict(read) == told["server_requests"]["by_broker_apikey"]

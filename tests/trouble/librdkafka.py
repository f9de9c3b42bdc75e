"""A share consumer of librdkafka as a process: `python -m tests.trouble.librdkafka SETTINGS GROUP NAME
implicit|explicit TOPIC...`.

Explicitly it accepts most records, and gives back or rejects others.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from random import Random
from typing import Any, Final

from confluent_kafka import AcknowledgeType, ShareConsumer

_KINDS: Final = (AcknowledgeType.ACCEPT,) * 8 + (AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
#: What an application may take for a record.
_MOST_SECONDS: Final = 0.005


def main(common: str, group: str, name: str, mode: str, *topics: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the consumer is closed on the way out
    random = Random(name)
    settings = {
        **json.loads(Path(common).read_text()),
        "group.id": group,
        "client.id": name,
        "share.acknowledgement.mode": mode,
    }
    consumer: Any = ShareConsumer(settings)
    try:
        consumer.subscribe([*topics])
        while True:
            for message in consumer.poll(1.0):
                if message.error() is not None:
                    print(message.error(), flush=True)
                    continue
                time.sleep(random.uniform(0, _MOST_SECONDS))
                if mode == "explicit":
                    consumer.acknowledge(message, random.choice(_KINDS))
            if mode == "explicit" and random.random() < 0.3:
                consumer.commit_async()
    finally:
        consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

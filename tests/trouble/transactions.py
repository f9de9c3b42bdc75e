"""A producer of librdkafka with transactions, some of them aborted: `python -m tests.trouble.transactions SETTINGS
TOPIC...`."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import KafkaException, Producer

_MOST_RECORDS: Final = 20
#: How long a transaction may stay open.
_MOST_SECONDS: Final = 2.0
_ABORTED: Final = 0.4
_NAME: Final = "transactions"


def main(common: str, *topics: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    random = Random(_NAME)
    while True:  # one that was fenced, or in an error that it cannot leave, is made anew
        producer = Producer({**json.loads(Path(common).read_text()), "transactional.id": _NAME, "client.id": _NAME})
        try:
            producer.init_transactions(20)
            while True:
                _transaction(producer, topics, random)
        except KafkaException as error:
            print(error, flush=True)


def _transaction(producer: Producer, topics: Sequence[str], random: Random) -> None:
    producer.begin_transaction()
    for number in range(random.randint(1, _MOST_RECORDS)):
        producer.produce(random.choice(topics), str(number).encode(), str(number % 5).encode())
    producer.flush(5)
    time.sleep(random.uniform(0, _MOST_SECONDS))
    if random.random() < _ABORTED:
        producer.abort_transaction(20)
    else:
        producer.commit_transaction(20)


if __name__ == "__main__":
    main(*sys.argv[1:])

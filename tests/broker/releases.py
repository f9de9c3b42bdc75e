"""The broker releases that conversations run against, and what each does in its own way. Shown by `make test-broker`.

What the releases do with share sessions stands in the product's own table (tests.broker.table); here is what surrounds
it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNKNOWN_SERVER_ERROR, INVALID_REQUEST = -1, 42


@dataclass(frozen=True)
class Release:
    """A Kafka release: its Maven version, the highest share versions it offers, how its storage is formatted, how it
    answers.

    `null_member`, `empty_member`, `long_member` (37 characters), `odd_member` (no base64 of a uuid): top-level errors
    for such member ids; None: taken like any other id. `fails_on_unknown_topics`: with UNKNOWN_SERVER_ERROR fetches
    fail whose session has a topic that does not exist; later brokers say it at the partition.
    `config_command`: the class of the tool for settings.
    """

    version: str
    share: int
    format: tuple[str, ...]
    null_member: int
    empty_member: int
    long_member: int
    odd_member: int | None
    fails_on_unknown_topics: bool = True
    config_command: str = "kafka.admin.ConfigCommand"

    @property
    def line(self) -> str:
        """`4.3` of `4.3.1`."""
        return self.version.rpartition(".")[0]


RELEASES: Final = {
    release.version: release
    for release in (
        Release("4.1.2", 1, ("--feature", "share.version=1"), -1, -1, -1, -1),
        Release("4.2.1", 2, (), -1, INVALID_REQUEST, INVALID_REQUEST, None),
        Release("4.3.1", 2, (), INVALID_REQUEST, INVALID_REQUEST, INVALID_REQUEST, None),
        Release(
            *("4.4.0", 2, (), INVALID_REQUEST, INVALID_REQUEST, INVALID_REQUEST, None),
            fails_on_unknown_topics=False,
            config_command="org.apache.kafka.tools.ConfigCommand",
        ),
    )
}

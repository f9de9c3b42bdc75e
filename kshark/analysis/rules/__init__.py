"""The rules: one row each, a file a topic. README.md in this folder tells how to add one."""

from __future__ import annotations

from typing import Final

from kshark.analysis.rules import (
    acknowledgements,
    answers,
    batches,
    connections,
    deliveries,
    delivery_counts,
    ends,
    epochs,
    fetching,
    gaps,
    last_deliveries,
    locks,
    member_epochs,
    membership,
    partitions,
    persisted,
    persister,
    record_batches,
    recovery,
    redelivery,
    requests,
    sasl,
    stored,
    topics,
    versions,
    wire,
)
from kshark.analysis.rules.book import RuleBook
from kshark.analysis.rules.rule import Rule

BOOK: Final = RuleBook(
    (
        *wire.ROWS,
        *answers.ROWS,
        *versions.ROWS,
        *sasl.ROWS,
        *epochs.ROWS,
        *ends.ROWS,
        *connections.ROWS,
        *recovery.ROWS,
        *partitions.ROWS,
        *requests.ROWS,
        *acknowledgements.ROWS,
        *topics.ROWS,
        *batches.ROWS,
        *deliveries.ROWS,
        *delivery_counts.ROWS,
        *redelivery.ROWS,
        *gaps.ROWS,
        *fetching.ROWS,
        *last_deliveries.ROWS,
        *locks.ROWS,
        *membership.ROWS,
        *member_epochs.ROWS,
        *persister.ROWS,
        *persisted.ROWS,
        *stored.ROWS,
        *record_batches.ROWS,
    )
)
RULES: Final = BOOK.rules

__all__ = ["BOOK", "RULES", "Rule", "RuleBook"]

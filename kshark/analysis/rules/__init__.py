"""Rules 18 to 47 of the catalogue, as pure functions by topic, and the order in which they explain a refusal."""

from __future__ import annotations

from typing import Final

from kshark.analysis.rules import connections, epochs, lifecycle, partitions, recovery, requests
from kshark.analysis.rules.registry import Rule, by_step

#: The first that the capture proves gives a refusal (122 or 123) its one cause.
EXPLANATIONS: Final[tuple[Rule, ...]] = (
    epochs.negative,
    epochs.acknowledged_at_zero,
    connections.overtaken,
    connections.two_writers,
    epochs.counted_an_error,
    epochs.counted_apart,
    epochs.wrapped,
    epochs.replayed,
    epochs.went_back,
    epochs.skipped_ahead,
    epochs.rejected_what_is_never_compared,
    lifecycle.used_after_final,
    lifecycle.lost_in_a_failed_reopen,
    lifecycle.killed_by_an_old_connection,
    lifecycle.ended_unasked,
    lifecycle.found_no_room,
    lifecycle.looked_for_none,
    lifecycle.never_opened,
)
#: What else is worth saying of a request, refused or not.
REMARKS: Final[tuple[Rule, ...]] = (
    epochs.accepted_what_was_not_due,
    connections.concurrent,
    connections.crossed,
    lifecycle.limited,
    recovery.went_on,
    recovery.looped,
    recovery.reopened,
    recovery.flapping,
    requests.acknowledged_while_opening,
    requests.closed_with_partitions,
    requests.listed_twice,
    requests.named_badly,
    partitions.phantom,
    partitions.forgot_what_it_had_not,
    partitions.forgot_what_it_holds,
)

__all__ = ["EXPLANATIONS", "REMARKS", "Rule", "by_step"]

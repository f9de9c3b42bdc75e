"""Causes: why what a finding is about came about, a stable word each; `kshark explain` tells what it means, and which
rules name it."""

from __future__ import annotations

from typing import Final

#: By word, in the order in which rules name them.
CAUSES: Final = {
    # Why an epoch was refused.
    "replay": "the epoch that was just used came again",
    "stale": "an epoch came from before the one that was just used",
    "skip_ahead": "a request was counted that the broker never accepted",
    "skip_after_timeout": "a request without an answer was counted as if it had been accepted",
    "skip_after_error": "a request that was refused before it reached the session was counted all the same",
    "two_counters": "ShareFetch and ShareAcknowledge were counted apart",
    "wrap": "the highest epoch was not followed by 1",
    "negative": "a number below the lowest there is",
    "ack_epoch_zero": "a ShareAcknowledge asked to open a session",
    "two_writers": "another connection, with a count of its own, used the session meanwhile",
    "reopened_elsewhere": "another connection opened the session anew",
    "overtaken": "another connection moved the session on while the request waited",
    "given_up": "the client had ended a connection with a request open, and gone on elsewhere, before the broker took "
    "that request",
    "concurrent_requests": "requests of two connections were open at the same time, and one of them was taken first",
    "broker_anomaly": "no state of the session explains the answer: the broker is wrong",
    # What took a session.
    "connection_closed": "the connection that opened the session was closed, and the session with it (Kafka 4.1 and "
    "later)",
    "old_connection_closed": "an older connection of the member was closed, and the new session with it (Kafka 4.1)",
    "broker_restart": "the broker was started again: all its sessions were lost",
    "evicted": "the session was idle, and gave way to another (Kafka 4.0)",
    "session_limit": "the broker had no room for a session",
    "final_epoch": "the session had been closed by epoch -1",
    "failed_reopen": "an epoch 0 that listed a partition twice took the old session and opened none",
    "never_opened": "no session had been opened, as far as the capture tells",
    # Why acknowledgements were refused.
    "inverted": "its last offset is below its first",
    "overlap": "it begins before the end of the one before it",
    "no_types": "it has no type",
    "types_count": "the number of its types is neither 1 nor that of its offsets",
    "type_unknown": "it has a type that this version does not know",
    "renew_without_flag": "it renews locks, and the request does not say so",
    "not_acquired": "the records had been given back, or the member was never handed them",
    "beyond_end": "nobody has acquired records that far",
    "nothing_acquired": "no records of the partition were handed out by this broker",
    "not_owner": "another member has acquired the records",
    "twice": "the member had acknowledged the records before",
    "after_lock": "the lock of the records had run out",
    "half_taken": "the member still had the records, and had been refused some of them before: the broker took those "
    "all the same",
    "renew_disabled": "the group does not let its members renew locks (share.renew.acknowledge.enable)",
    "not_leader": "the broker does not lead the partition, or not any more",
    "unknown_topic": "the broker knows no topic with that id",
    "unknown_partition": "the broker knows no partition of the topic with that number",
    # Why a share coordinator refused a broker.
    "went_back": "the sender had stored with a higher state epoch itself",
    "newer_state": "the state was set anew, by a reset of offsets say, and the sender had not heard of it",
    "newer_leader": "another leader had read the state, and the sender did not know yet that it leads no more",
    "not_initialized": "the group coordinator had not initialized the state, or what became of it was not seen",
    "deleted": "the state was deleted, and the sender had not heard of it",
    "refused_before": "there was no state when another write was refused before, and none was made since",
    "coordinator_moved": "another broker coordinates the share partition by now",
    # Why a heartbeat was refused.
    "empty_id": "an id is empty",
    "no_subscription": "it names no topic to subscribe to",
    "invalid_epoch": "no member epoch is below -1",
    "ahead": "the coordinator had given no member epoch as high as that",
    "behind": "the coordinator had given newer member epochs since",
    "not_adopted": "the answer before gave a newer member epoch, and the old one was used",
    "answer_lost": "the newer member epoch was in an answer that never came",
    "rejoin_refused": "brokers before Kafka 4.2 let no member join again that they still have",
    "left": "the member had left the group",
    "never_joined": "the member had not joined, as far as the capture tells",
    "expired": "no heartbeat had come for so long that the group went on without the member",
    "group_full": "the group has as many members as it may (group.share.max.size)",
    "other_type": "a group of another type has that id",
    "loading": "the coordinator was still reading the state of the group",
    "not_available": "there was no coordinator yet, as while a broker starts",
    "not_coordinator": "another broker coordinates the group",
    # Why a broker refuses rightly what nobody is to blame for (kshark.analysis.results.ordinary).
    "no_such_group": "there is no group with that id, or none of that type",
    "not_empty": "the group has members",
    "member_id_given": "who joins for the first time is given a member id, and joins once more with it (KIP-394)",
    "rebalancing": "the group was being rebalanced, which members learn by such answers, and join again",
    "transaction_open": "the transaction before was still being completed",
    "others_refused": "others that were asked for with it were refused, so it was not tried",
    "not_authorized": "an access control list does not allow it",
    # Of requests by themselves.
    "invalid_member_id": "the member id is none that a broker takes",
    "unknown": "the capture does not tell",
}

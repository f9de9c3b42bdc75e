"""Causes of findings. Each has a stable word; `kshark explain WORD` prints its meaning and the rules that use it."""

from __future__ import annotations

from typing import Final

#: Meaning by word, in the order in which rules use them.
CAUSES: Final = {
    # Why an epoch was refused.
    "replay": "the request repeats the last used epoch",
    "stale": "the epoch is older than the last used one",
    "skip_ahead": "the client counted a request that the broker never accepted",
    "skip_after_timeout": "the client counted a request without an answer as accepted",
    "skip_after_error": "a request was rejected, so its epoch was not counted, but the client counted it",
    "two_counters": "the client counts ShareFetch and ShareAcknowledge separately",
    "wrap": "the highest epoch was not followed by 1",
    "negative": "the number is below the lowest valid one",
    "ack_epoch_zero": "a ShareAcknowledge cannot open a session",
    "two_writers": "another connection, with its own epoch count, used the session meanwhile",
    "reopened_elsewhere": "another connection opened a new session",
    "overtaken": "another connection advanced the session while the request waited",
    "given_up": "the client had closed a connection with an open request, and continued on another one before the "
    "broker handled that request",
    "concurrent_requests": "requests on two connections were open at the same time, and the broker counted the other "
    "one first",
    "broker_anomaly": "no state of the session explains the answer: the broker is wrong",
    # Why a session ended.
    "connection_closed": "the connection that opened the session closed, which ended the session (Kafka 4.1 and later)",
    "old_connection_closed": "an older connection of the member closed, which ended the new session (Kafka 4.1)",
    "broker_restart": "the broker was restarted and lost all its sessions",
    "evicted": "the broker evicted the session for another one (share sessions: Kafka 4.0, idle ones)",
    "session_limit": "the broker had no room for another session",
    "final_epoch": "the session was closed with epoch -1",
    "failed_reopen": "an epoch 0 that listed a partition twice ended the old session and opened no new one",
    "never_opened": "the member opened no session, as far as the capture shows",
    # Why acknowledgements were refused.
    "inverted": "its last offset is below its first",
    "overlap": "it begins before the previous batch ends",
    "no_types": "it has no type",
    "types_count": "it has neither one type nor one type per offset",
    "type_unknown": "it has a type that this version does not define",
    "renew_without_flag": "it renews locks, but the request does not set is_renew_ack",
    "not_acquired": "the member had released the records, or never acquired them",
    "beyond_end": "no member has acquired records that far",
    "nothing_acquired": "this broker delivered no records of the partition",
    "not_owner": "another member had acquired the records",
    "twice": "the member had acknowledged the records before",
    "after_lock": "the lock of the records had expired",
    "half_taken": "the member still held the records, and an earlier request with some of them was refused: the "
    "broker applied it nevertheless",
    "renew_disabled": "the group does not allow lock renewals (share.renew.acknowledge.enable)",
    "not_leader": "the broker does not lead the partition, or no longer leads it",
    "state_fenced": "the share coordinator has newer state of the partition: its leader moved, or the state was set "
    "anew, and this leader did not know",
    "unknown_topic": "the broker knows no topic with this id",
    "unknown_partition": "the broker knows no partition of the topic with this number",
    # Why a share coordinator refused a broker.
    "went_back": "the sender itself had used a higher state epoch before",
    "newer_state": "the state was set anew, for example by an offset reset, and the sender did not know",
    "newer_leader": "another leader had read the state, and the sender did not know that it no longer leads",
    "not_initialized": "the group coordinator had not initialized the state, or the capture does not show the result",
    "deleted": "the state was deleted, and the sender did not know",
    "refused_before": "an earlier write was refused because there was no state, and none was initialized since",
    "coordinator_moved": "another broker coordinates the share partition now",
    # Why a heartbeat was refused.
    "empty_id": "an id is empty",
    "no_subscription": "the heartbeat subscribes to no topic",
    "invalid_epoch": "no member epoch is below -1",
    "ahead": "the coordinator had given no member epoch that high",
    "behind": "the coordinator had given newer member epochs since",
    "not_adopted": "the answer before gave a newer member epoch, but the member used the old one",
    "replaced": "another host used the same member id",
    "answer_lost": "the newer member epoch was in an answer that never arrived",
    "rejoin_refused": "before Kafka 4.2 a broker refuses a member that joins again while the group still has it",
    "left": "the member had left the group",
    "never_joined": "the member had not joined, as far as the capture shows",
    "expired": "the member sent no heartbeat for too long, and the group removed it",
    "not_yet_used": "the member had got a newer number, and had not used it yet: the request may have waited meanwhile",
    "rebalanced": "the group had rebalanced, and the member had not joined the new generation yet",
    "not_rejoined": "the member did not join again within its rebalance timeout, and the group went on without it",
    "poll_too_late": "the application did not poll within max.poll.interval.ms, so the client had left the group",
    "two_processes": "two processes use this id at the same time, and take it from each other",
    "not_released": "the process before did not leave, and its session runs until its timeout",
    "left_for_good": "a static member left with epoch -1, so that its partitions moved to others at once",
    "group_full": "the group has its maximum number of members (group.share.max.size)",
    "other_type": "a group of another type has this id",
    "loading": "the coordinator was still loading the group's state",
    "not_available": "there was no coordinator yet, as while a broker starts",
    "not_coordinator": "another broker coordinates the group, or this one does not yet",
    # Why a broker refuses a request correctly, without a fault of the client (kshark.analysis.results.ordinary).
    "no_such_group": "there is no group with this id, or it has another type",
    "subscribed": "the group is subscribed to the topic, so its offsets stay",
    "not_empty": "the group has members",
    "member_id_given": "a new member gets its member id in this answer, and joins again with it (KIP-394)",
    "rebalancing": "the group was rebalancing: members learn this from such answers, and join again",
    "transaction_open": "the previous transaction was still being completed",
    "already_gone": "the group no longer had the member that left",
    "appended_before": "the broker had appended the batch before, so the producer may count it as sent",
    "leader_catching_up": "a new leader did not know the end of the partition yet; the client asks again",
    "others_refused": "other parts of the request were refused, so the broker did not try this one",
    "not_authorized": "an access control list does not allow it",
    "credentials": "the broker does not accept the client's credentials (SASL)",
    # What a client did not do after a refusal, before it sent the request again.
    "no_metadata_refresh": "the client did not ask for the partition's leader again (Metadata)",
    "no_coordinator_lookup": "the client did not ask for the coordinator again (FindCoordinator)",
    "no_rejoin": "the group was rebalancing, and the member did not join again",
    "member_id_not_adopted": "each answer gives the member an id, and it joins without one again (KIP-394)",
    "no_pause": "the client sends the request again at once after each refusal",
    # Why a broker refused a fetch session (kshark.incidents.watchers.fetch_sessions).
    "lost_answer": "the broker had counted the same epoch before, and its answer was lost",
    "opened_each_time": "the client opens a fetch session with each Fetch, and uses none",
    "emptied": "the last partition was taken out of the session, which ended it",
    # Why a producer was fenced, or its batch refused (kshark.incidents.watchers.fencing, producers).
    "taken_over": "another client has taken over the transactional.id",
    "restarted": "the same client has started anew with its transactional.id",
    "timed_out": "the transaction was open for longer than its timeout, and the coordinator ended it",
    "counted_by_batch": "the client counts sequences by batch: they count records",
    "gap_after_failure": "a batch before was refused, and the client went on with the sequences after it",
    "epoch_bump_left_others": "the client raised its producer epoch, and went on with the sequences of the old one",
    "broker_lost": "the broker had acknowledged the batch before with acks=all, and no longer knows it",
    "written_twice": "the client sent the same records again under a higher producer epoch",
    "not_added": "the capture shows no AddPartitionsToTxn for the partition, so the coordinator does not know of it",
    "no_marker": "the transaction was ended, and its markers were not written",
    "not_aborted": "the coordinator knew the partition, and did not abort the transaction after its timeout",
    # What makes an incident worse (kshark.incidents).
    "ignored": "the client did not wait for the time in throttle_time_ms",
    "queue_missing": "the topic of the dead-letter queue does not exist",
    "queue_not_enabled": "errors.deadletterqueue.group.enable of the dead-letter queue is false",
    "queue_not_written": "the leader wrote nothing to the dead-letter queue",
    # Why Metadata does not find a topic.
    "no_such_topic": "the cluster has no topic with this name",
    "invalid_name": "no topic may have this name",
    # Why a single request was refused.
    "invalid_member_id": "brokers do not accept this member id",
    # Why a group refuses a member's protocol (and above: other_type).
    "other_protocol_type": "the members of the group have another protocol type, for example connect",
    "no_common_assignor": "no assignor is supported by all members of the group",
    # Why a group rebalanced (and above: poll_too_late, expired).
    "join": "a new member joined",
    "leave": "a member left, or was removed",
    "gone": "a member is not in the group any more, and the capture does not show why",
    "subscription": "a member subscribed to other topics",
    "topics": "partitions or topics were added or deleted",
    "revocation": "a member had given up partitions: the second half of a cooperative rebalance",
    "rejoin": "a member joined again that nobody had asked to",
    "not_synced": "a member did not fetch its assignment in time",
    "unknown": "the capture does not show the cause",
    "after_acknowledgements": "the request before was an accepted ShareFetch with acknowledgements: the broker may "
    "have counted it twice",
    # Why connections fail.
    "broker_closed": "the broker closed the connection",
    "client_closed": "the client closed the connection",
    "plain_client": "the client sends Kafka's requests without TLS to a listener that speaks TLS",
    "not_rewritten": "a proxy rewrites the brokers' addresses in Metadata, and not in other answers",
    "acks0_failed": "a broker does not answer Produce with acks=0: it closes the connection if the append fails",
}

#: What to do about a cause, where the advice of its rules has to speak of all causes.
ADVICE: Final = {
    "no_metadata_refresh": "Let the client ask for the partition's leader (Metadata) after this error, or use the "
    "leader that the answer names (KIP-951), before it tries again.",
    "no_coordinator_lookup": "Let the client ask for the coordinator (FindCoordinator) after this error, before it "
    "tries again.",
    "no_rejoin": "Let the member join again (JoinGroup) after this error: the group waits for it, and goes on without "
    "it after the rebalance timeout.",
    "member_id_not_adopted": "Let the client send JoinGroup again with the member id of the answer (KIP-394).",
    "no_pause": "Let the client pause between attempts, longer each time (retry.backoff.ms, 100 ms, and "
    "retry.backoff.max.ms, 1 s, in Java).",
    "connection_closed": "After error 122, open a new session: send a ShareFetch with epoch 0. If connections close "
    "because they are idle, raise connections.max.idle.ms of the side that closes, or fetch without long pauses.",
    "evicted": "Raise the broker's limit of sessions, or run fewer clients: it had no room, and ended an idle session. "
    "Share sessions: group.share.max.groups (Kafka 4.0); fetch sessions: max.incremental.fetch.session.cache.slots.",
    "broker_restart": "After error 122, open a new session: send a ShareFetch with epoch 0. Look into the broker's log "
    "for the reason of its restart.",
    "after_acknowledgements": "Compare the epochs with the broker's log at DEBUG. If no other connection used the "
    "session, report it to the broker's vendor with these packets, and acknowledge with ShareAcknowledge meanwhile.",
    "broker_closed": "Look into the broker's log at this time: a broker closes a connection when it cannot read a "
    "request, when it shuts down, and when its own work on the request failed.",
    "credentials": "Correct the client's user and password (sasl.jaas.config), or create the user: kafka-configs "
    "--alter --entity-type users. The broker's log has the reason.",
    "not_authorized": "Correct the credentials or grant the right (kafka-acls). Until then stop the client: it gets "
    "the same answer each time.",
}

"""The metrics that `--prometheus` serves: a row for each family, with its kind, its labels and its help text.

Names follow prometheus.io/docs/practices/naming. The family's name has no suffix; samples of counters end in _total.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, NamedTuple

from kshark.units import shortened

Kind = Literal["counter", "gauge", "histogram", "info"]

#: The values of a series' labels, in the order of Family.labels.
Key = tuple[str, ...]
#: The numbers of a series: one; of a histogram the count, the sum, and the number in each bucket.
Values = tuple[float, ...]
#: The series of each family, by its name. Gauges are in the order of their importance.
Series = dict[str, dict[Key, Values]]

#: Upper bounds of the buckets of `request_work`, in seconds; one more bucket has the rest.
BUCKETS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
#: The label value of series that are summed because there are too many.
OTHER: Final = "other"
#: The longest label value; names of topics have at most 249 characters.
LABEL_LENGTH: Final = 249
#: Labels that are added to findings and error responses only if they are asked for.
OPTIONAL: Final = ("client", "member")


class Family(NamedTuple):
    """One family of series. `details`: it has the labels of OPTIONAL, if these are asked for."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    details: bool = False


_PARTITION: Final = ("group", "topic", "partition")

FAMILIES: Final = (
    Family(
        "kshark_findings",
        "counter",
        "Findings of the rule catalogue, as in kshark check. verdict: violation (proved), unknown, note. "
        "kshark explain CODE says what to do.",
        ("code", "verdict", "blame", "group"),
        details=True,
    ),
    Family(
        "kshark_incidents",
        "gauge",
        "Incidents that last now, such as a broker that does not answer: kshark explain CODE says more. They become "
        "findings when they end.",
        ("code", "broker", "group"),
    ),
    Family(
        "kshark_error_responses",
        "counter",
        "Responses with this error code at any depth. A response counts once for each of its codes and groups.",
        ("api", "error", "group"),
        details=True,
    ),
    Family(
        "kshark_requests",
        "counter",
        "Requests by API and result: answered, unanswered, one_way (no response is due), body_cut (the response was "
        "not captured whole).",
        ("api", "result"),
    ),
    Family(
        "kshark_request_work_seconds",
        "histogram",
        "Time from a request to its response, without the time for which the broker waits on purpose (long polls, "
        "throttled clients). Requests whose wait is unknown are left out.",
        ("api",),
    ),
    Family(
        "kshark_share_lag_records",
        "gauge",
        "Records of a share partition that the group has not finished (KIP-1226): from the start offset to the end "
        "of the partition, as Produce, Fetch and ListOffsets responses show it, without those that ended in between.",
        _PARTITION,
    ),
    Family(
        "kshark_share_in_flight_records",
        "gauge",
        "Records from the start offset to the last one acquired (KIP-1103: InFlightMessageCount).",
        _PARTITION,
    ),
    Family("kshark_share_start_offset", "gauge", "Start offset of a share partition.", _PARTITION),
    Family(
        "kshark_share_records_acquired",
        "counter",
        "Records acquired by members, redelivered ones included.",
        _PARTITION,
    ),
    Family(
        "kshark_share_records_redelivered",
        "counter",
        "Records acquired with a delivery count above 1.",
        _PARTITION,
    ),
    Family(
        "kshark_share_records_lock_expired",
        "counter",
        "Acquired records whose lock expired before an acknowledgement.",
        _PARTITION,
    ),
    Family(
        "kshark_share_records_rejected",
        "counter",
        "Records that members rejected: the broker archives them, and nobody gets them again.",
        _PARTITION,
    ),
    Family(
        "kshark_share_records_acknowledged",
        "counter",
        "Records whose acknowledgement the broker accepted. type: accept, release, reject, gap, renew.",
        ("group", "type"),
    ),
    Family(
        "kshark_share_acknowledgements_refused",
        "counter",
        "Records whose acknowledgement the broker refused with an error.",
        ("group",),
    ),
    Family(
        "kshark_share_fetches",
        "counter",
        "ShareFetch requests by outcome: records, failed, idle (waited in vain), empty, unanswered, unread.",
        ("group", "outcome"),
    ),
    Family("kshark_share_sessions", "gauge", "Share sessions that are certainly open.", ("group",)),
    Family(
        "kshark_group_members",
        "gauge",
        "Members of which a heartbeat was answered without an error in the last 45 s, and that did not leave. type: "
        "share, consumer, streams, classic.",
        ("group", "type"),
    ),
    Family("kshark_brokers", "gauge", "Addresses of brokers with an open connection."),
    Family(
        "kshark_connections",
        "gauge",
        "Open TCP connections. service: kafka, tls (not decrypted), http, other, unknown.",
        ("service",),
    ),
    Family("kshark_packets", "counter", "Packets judged."),
    Family("kshark_bytes", "counter", "Bytes of the packets judged, as on the wire."),
    Family(
        "kshark_packets_dropped",
        "counter",
        "Packets for which the kernel had no room: findings nearby may be unknown because of them.",
    ),
    Family("kshark_delay_seconds", "gauge", "Age of the oldest packet that is captured and not judged; 0: none is."),
    Family("kshark_waiting_bytes", "gauge", "Bytes captured and not judged."),
    Family("kshark_interface_up", "gauge", "1 if the interface has a link, else 0.", ("interface",)),
    Family("kshark_capture_start_time_seconds", "gauge", "When the capture began, in seconds since 1970."),
    Family("kshark_state_time_seconds", "gauge", "The time of these metrics, in seconds since 1970."),
    Family(
        "kshark_series_left_out",
        "gauge",
        f"Series beyond the limit. Those of counters are summed under the label value {OTHER}; those of gauges are "
        "missing: the partitions with the least lag, otherwise the smallest.",
        ("family",),
    ),
    Family("kshark_build", "info", "The version of kshark.", ("version",)),
)


def families(labels: tuple[str, ...]) -> tuple[Family, ...]:
    """Return the families, those with details with these labels of OPTIONAL added."""
    return tuple(family._replace(labels=family.labels + labels) if family.details else family for family in FAMILIES)


def label(text: str | None) -> str:
    """Return text of a capture as the value of a label: printable, and of limited length."""
    return _label((text or "")[: LABEL_LENGTH + 1])  # what is remembered is short, too


@lru_cache(16_384)
def _label(text: str) -> str:
    return shortened(text, LABEL_LENGTH)

"""Queries that analysts need, in SQL that DuckDB and Spark run unchanged.

They use the tables of kshark.tables, and the views `errors`, `apis` and `releases`, which kshark.output.sql makes from
Kafka's facts.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Query(NamedTuple):
    """`about`: the question, in one line."""

    about: str
    sql: str


QUERIES: Final = (
    Query(
        "Which errors did brokers return, at any depth, to which clients, and may the client retry?",
        """
SELECT capture, api, client_id, e.error_code, error, retriable, count(*) AS answers, min(ts) AS first, max(ts) AS last
FROM exchanges x JOIN errors e ON array_contains(x.error_codes, e.error_code)
WHERE x.error_codes IS NOT NULL
GROUP BY ALL
ORDER BY answers DESC, capture, api, client_id
""",
    ),
    Query(
        "How long do brokers take, in milliseconds? (a fetch may wait for records: a long poll is not slow)",
        """
SELECT broker, x.api, about, count(*) AS answers,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_ns) / 1e6 AS p50,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY latency_ns) / 1e6 AS p99,
       max(latency_ns) / 1e6 AS slowest
FROM exchanges x JOIN apis a ON x.api_key = a.api_key
WHERE latency_ns IS NOT NULL
GROUP BY ALL
ORDER BY p99 DESC, broker, x.api
""",
    ),
    Query(
        "What happened in each minute?",
        """
SELECT date_trunc('minute', ts) AS minute, count(*) AS exchanges,
       count(error_codes) AS errors,
       count(CASE WHEN outcome = 'unanswered' THEN 1 END) AS unanswered,
       max(latency_ns) / 1e6 AS slowest_ms
FROM exchanges
GROUP BY ALL
ORDER BY minute
""",
    ),
    Query(
        "Which software uses which versions of an API, and which is the oldest Kafka release, from 3.8 on, that "
        "supports them?",
        """
WITH spoken AS (
  SELECT software_name, software_version, api_key, api, api_version, count(*) AS requests
  FROM exchanges x JOIN flows f ON x.capture = f.capture AND x.flow_id = f.flow_id
  WHERE outcome <> 'orphan'
  GROUP BY ALL)
SELECT software_name, software_version, s.api_key, api, api_version, requests, min_by(release, number) AS oldest_release
FROM spoken s LEFT JOIN releases r ON s.api_key = r.api_key AND api_version BETWEEN lowest AND highest
GROUP BY ALL
ORDER BY software_name, software_version, s.api_key, api_version
""",
    ),
    Query(
        "Which requests and responses belong to violations of share session rules?",
        """
SELECT f.ts, f.code, f.blame, f.cause, f.client_id, r.group_id, r.member_id, r.api, r.epoch, s.expected, error,
       f.argument
FROM findings f
JOIN share_requests r ON f.capture = r.capture AND f.flow_id = r.flow_id AND f.exchange = r.exchange
  AND f.correlation_id = r.correlation_id
JOIN steps s ON r.capture = s.capture AND r.flow_id = s.flow_id AND r.exchange = s.exchange
  AND r.correlation_id = s.correlation_id
LEFT JOIN errors e ON r.error_code = e.error_code
WHERE f.verdict = 'violation'
ORDER BY f.ts_ns, f.packet, f.code
""",
    ),
    Query(
        "Why were requests of share sessions rejected, and with which epochs?",
        """
SELECT error, cause, api, count(*) AS refused, count(expected) AS expectation_known,
       count(DISTINCT session_key) AS members,
       min(epoch) AS lowest, max(epoch) AS highest
FROM steps s JOIN errors e ON s.error_code = e.error_code
WHERE s.error_code IN (122, 123)
GROUP BY ALL
ORDER BY refused DESC, error, cause, api
""",
    ),
    Query(
        "How do share sessions end, and how long do they last?",
        """
SELECT capture, group_id, broker, ended, count(*) AS sessions, sum(requests) AS requests,
       sum(requests - accepted) AS not_accepted,
       avg((closed_ts_ns - opened_ts_ns) / 1e9) AS mean_seconds
FROM sessions
GROUP BY ALL
ORDER BY capture, group_id, broker, ended
""",
    ),
    Query(
        "How many records of a share group were delivered again, and how often at most?",
        """
SELECT capture, group_id, coalesce(topic, topic_id) AS topic, partition,
       sum(last_offset - first_offset + 1) AS acquired,
       sum(CASE WHEN delivery_count > 1 THEN last_offset - first_offset + 1 ELSE 0 END) AS again,
       max(delivery_count) AS most
FROM acquired
GROUP BY ALL
ORDER BY again DESC, capture, group_id, topic, partition
""",
    ),
)

-- Latencies by broker, client and API in milliseconds, with the time that long polls waited on purpose apart.
--     cd TABLES && duckdb -f latency.sql
-- jobs/latency.py explains each step, and gives the same rows.

CREATE OR REPLACE TEMP VIEW latency AS
WITH answers AS (
    SELECT
        *,
        api IN ('Fetch', 'ShareFetch') AS is_fetch,
        CASE WHEN is_fetch THEN json_extract_string(request_json, '$.max_wait_ms')::BIGINT END AS asked_ms,
        CASE WHEN is_fetch THEN json_extract_string(request_json, '$.min_bytes')::BIGINT END AS min_bytes,
        last_value(
            CASE WHEN throttle_time_ms > 0 THEN response_ts_ns + throttle_time_ms::BIGINT * 1000000 END IGNORE NULLS
        ) OVER (
            PARTITION BY capture, flow_id ORDER BY response_packet, correlation_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS throttled_until_ns,
        least(latency_ns, greatest(0, coalesce(throttled_until_ns - request_ts_ns, 0))) AS muted_ns
    FROM read_parquet('exchanges/**/*.parquet')
    WHERE latency_ns IS NOT NULL
),

polls AS (
    SELECT
        *,
        CASE
            WHEN asked_ms > 0 AND latency_ns - muted_ns >= (asked_ms - 1) * 1000000
                THEN least(latency_ns - muted_ns, asked_ms * 1000000)
            WHEN asked_ms = 0 OR min_bytes = 0 OR (is_fetch AND error_codes IS NOT NULL) THEN 0
            WHEN list_contains(error_codes, 79) THEN 0
            WHEN api IN ('Fetch', 'ShareFetch', 'JoinGroup', 'SyncGroup') THEN NULL
            ELSE 0
        END AS polled_ns
    FROM answers
),

parts AS (
    SELECT
        capture, broker, client_id, api,
        latency_ns - muted_ns - polled_ns AS work_ns,
        nullif(coalesce(muted_ns + polled_ns, latency_ns), 0) AS wait_ns
    FROM polls
)

SELECT
    capture, broker, client_id, api,
    count(*) AS answers,
    count(wait_ns) AS waited,
    quantile_disc(work_ns, 0.5) / 1e6 AS work_p50_ms,
    quantile_disc(work_ns, 0.95) / 1e6 AS work_p95_ms,
    quantile_disc(work_ns, 0.99) / 1e6 AS work_p99_ms,
    max(work_ns) / 1e6 AS work_max_ms,
    quantile_disc(wait_ns, 0.5) / 1e6 AS wait_p50_ms,
    quantile_disc(wait_ns, 0.95) / 1e6 AS wait_p95_ms,
    quantile_disc(wait_ns, 0.99) / 1e6 AS wait_p99_ms,
    max(wait_ns) / 1e6 AS wait_max_ms
FROM parts
GROUP BY capture, broker, client_id, api;

FROM latency ORDER BY work_p99_ms DESC NULLS LAST, capture, broker, client_id, api;

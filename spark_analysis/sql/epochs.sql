-- Share sessions that lost count of their epochs (KIP-932): which epoch a request used, and which one was due.
--     cd TABLES && duckdb -f epochs.sql
-- jobs/epochs.py explains each step, and gives the same rows.

CREATE OR REPLACE TEMP VIEW epochs AS
WITH requests AS (
    SELECT
        *,
        CASE WHEN epoch = 2147483647 THEN 1 ELSE epoch + 1 END AS following,
        lead(packet) OVER in_order AS next_packet,
        lead(epoch) OVER in_order AS next_epoch,
        lead(error_code) OVER in_order AS next_error_code,
        lead(flow_id) OVER in_order AS next_flow_id,
        lead(ts_ns) OVER in_order AS next_ts_ns,
        (error_code IS DISTINCT FROM lag(error_code) OVER in_order)::INT AS starts_run
    FROM read_parquet('share_requests/**/*.parquet')
    WINDOW in_order AS (PARTITION BY capture, session_key ORDER BY packet, correlation_id)
),

counted AS (
    SELECT
        *,
        CASE
            WHEN error_code IN (122, 133) OR (error_code = -1 AND epoch = 0 AND repeats) THEN 0
            WHEN
                error_code = 0
                OR (error_code = -1 AND epoch >= 0)
                OR (
                    api = 'ShareFetch'
                    AND error_code = 123
                    AND next_epoch = following
                    AND next_flow_id <> flow_id
                    AND next_ts_ns < ts_ns + latency_ns
                )
                THEN following
        END AS due_after
    FROM requests
)

SELECT
    capture, flow_id, exchange, correlation_id, broker, client, group_id, member_id, session_key, session, packet, ts, api,
    epoch AS epoch_used, error_code, cause, next_packet, next_epoch, next_error_code,
    last_value(due_after IGNORE NULLS) OVER (
        PARTITION BY capture, session_key ORDER BY packet, correlation_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS epoch_due,
    sum(starts_run) OVER (
        PARTITION BY capture, session_key ORDER BY packet, correlation_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS run
FROM counted
LEFT JOIN (
    SELECT capture, flow_id, exchange, correlation_id, session, cause
    FROM read_parquet('steps/**/*.parquet')
) AS steps USING (capture, flow_id, exchange, correlation_id);

CREATE OR REPLACE TEMP VIEW epoch_runs AS
WITH runs AS (
    SELECT
        capture, broker, group_id, member_id, error_code,
        min(ts) AS started,
        min(packet) AS first_packet,
        count(*) AS refusals,
        first(epoch_used ORDER BY packet, correlation_id) AS epoch_used,
        first(epoch_due ORDER BY packet, correlation_id) AS epoch_due,
        coalesce(string_agg(DISTINCT cause, ', ' ORDER BY cause), '') AS causes,
        last(next_packet ORDER BY packet, correlation_id) AS next_packet,
        last(next_epoch ORDER BY packet, correlation_id) AS next_epoch,
        last(next_error_code ORDER BY packet, correlation_id) AS next_error_code
    FROM epochs
    WHERE error_code IN (122, 123)
    GROUP BY capture, broker, group_id, member_id, session_key, run, error_code
)

SELECT
    capture, broker, group_id, member_id, started, first_packet, error_code, refusals, epoch_used, epoch_due, causes,
    CASE
        WHEN next_packet IS NULL THEN 'no later request'
        WHEN next_error_code IS NULL THEN 'next request unanswered'
        WHEN next_error_code <> 0 THEN 'next error ' || next_error_code
        WHEN next_epoch = 0 THEN 'new session'
        WHEN next_epoch = -1 THEN 'session closed'
        ELSE 'due epoch used'
    END AS recovery
FROM runs;

FROM epoch_runs ORDER BY capture, first_packet;

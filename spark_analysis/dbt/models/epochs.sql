-- Made from ../../sql/epochs.sql by tools/dbt_models.py.
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
    FROM {{ source('kshark', 'share_requests') }}
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
    FROM {{ source('kshark', 'steps') }}
) AS steps USING (capture, flow_id, exchange, correlation_id)

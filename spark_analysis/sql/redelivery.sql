-- Records that a share group received again (KIP-932), and why: as far as the packets prove it.
--     cd TABLES && duckdb -f redelivery.sql
-- jobs/redelivery.py explains each step and each cause, and gives the same rows.

CREATE OR REPLACE TEMP VIEW redelivery AS
WITH session_ends AS (
    SELECT
        capture, session_key, session,
        first_value(CASE WHEN ended NOT IN ('reopened', 'open') THEN closed_ts_ns END IGNORE NULLS) OVER (
            PARTITION BY capture, session_key ORDER BY session ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS session_end_ns
    FROM read_parquet('sessions/**/*.parquet')
),

acquired AS (
    SELECT
        *,
        delivery_count > 1 OR first_offset <= max(last_offset) OVER (
            PARTITION BY capture, group_id, topic_id, partition ORDER BY packet, first_offset
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS again
    FROM read_parquet('acquired/**/*.parquet')
    WHERE
        first_offset >= 0 AND last_offset >= first_offset AND last_offset < 1000000000000000000
        AND last_offset // 1000 - first_offset // 1000 < 1000
),

deliveries AS (
    SELECT
        capture, acquired.group_id, topic_id, partition, topic, acquired.packet, acquired.ts_ns, first_offset, last_offset,
        acquired.member_id, delivery_count, lock_timeout_ms, session_end_ns, again, NULL::INT[] AS types
    FROM acquired
    LEFT JOIN read_parquet('steps/**/*.parquet') AS steps USING (capture, flow_id, exchange, correlation_id)
    LEFT JOIN session_ends USING (capture, session_key, session)
),

answers AS (
    SELECT capture, group_id, topic_id, partition, packet, ts_ns, first_offset, last_offset, member_id, types
    FROM read_parquet('acknowledgements/**/*.parquet')
    WHERE
        error_code = 0
        AND first_offset >= 0 AND last_offset >= first_offset AND last_offset < 1000000000000000000
        AND last_offset // 1000 - first_offset // 1000 < 1000
),

pieces AS (
    SELECT *, unnest(generate_series(first_offset // 1000, last_offset // 1000)) AS block
    FROM (FROM deliveries UNION ALL BY NAME FROM answers)
),

again AS (
    SELECT DISTINCT capture, group_id, topic_id, partition, block FROM pieces WHERE again
),

records AS (
    SELECT
        pieces.*,
        unnest(generate_series(greatest(first_offset, block * 1000), least(last_offset, block * 1000 + 999))) AS record_offset
    FROM pieces SEMI JOIN again USING (capture, group_id, topic_id, partition, block)
),

events AS (
    SELECT
        *,
        types IS NULL AS is_delivery,
        CASE WHEN len(types) = 1 THEN types[1] ELSE types[record_offset - first_offset + 1] END AS type
    FROM records
),

history AS (
    SELECT
        *,
        last_value(
            CASE
                WHEN is_delivery OR type <> 4
                    THEN {
                        'type': type, 'member_id': member_id, 'ts_ns': ts_ns, 'lock_timeout_ms': lock_timeout_ms,
                        'session_end_ns': session_end_ns
                    }
            END IGNORE NULLS
        ) OVER earlier AS before,
        last_value(CASE WHEN is_delivery OR type = 4 THEN ts_ns END IGNORE NULLS) OVER earlier AS locked_ns
    FROM events
    WINDOW earlier AS (
        PARTITION BY capture, group_id, topic_id, partition, record_offset ORDER BY packet, type NULLS FIRST
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),

times AS (
    SELECT
        *,
        locked_ns + before.lock_timeout_ms::BIGINT * 1000000 AS expires_ns,
        CASE WHEN before.session_end_ns >= before.ts_ns THEN before.session_end_ns END AS ended_ns
    FROM history
    WHERE is_delivery AND (delivery_count > 1 OR before IS NOT NULL)
)

SELECT
    capture, group_id, topic_id, partition,
    CASE
        WHEN before IS NULL THEN 'before the capture'
        WHEN before.type = 2 THEN 'released'
        WHEN before.type IS NOT NULL AND delivery_count = 1 THEN 'offsets reset'
        WHEN before.type IS NOT NULL THEN 'acknowledged'
        WHEN ended_ns <= ts_ns AND (expires_ns IS NULL OR ended_ns < expires_ns) THEN 'session ended'
        WHEN expires_ns <= ts_ns THEN 'lock expired'
        ELSE 'unknown'
    END AS cause,
    max(topic) AS topic,
    count(*) AS redeliveries,
    count(DISTINCT record_offset) AS records,
    count(*) FILTER (WHERE member_id <> before.member_id) AS to_another_member,
    max(delivery_count) AS highest_delivery_count
FROM times
GROUP BY capture, group_id, topic_id, partition, cause;

FROM redelivery ORDER BY capture, group_id, topic_id, partition, cause;

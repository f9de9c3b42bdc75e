-- Made from ../../sql/sessions.sql by tools/dbt_models.py.
WITH steps AS (
    SELECT * FROM {{ source('kshark', 'steps') }} WHERE session IS NOT NULL
),

requests AS (
    SELECT
        capture, session_key, session,
        count(*) FILTER (WHERE api = 'ShareFetch') AS fetches,
        count(*) FILTER (WHERE api = 'ShareAcknowledge') AS acknowledge_requests,
        count(*) FILTER (WHERE error_code = 123) AS epoch_refusals,
        count(*) FILTER (WHERE error_code = 122) AS not_found_refusals,
        count(*) FILTER (WHERE outcome = 'unanswered') AS unanswered
    FROM steps
    GROUP BY capture, session_key, session
),

acquired AS (
    SELECT
        *,
        CASE
            WHEN
                first_offset >= 0 AND last_offset >= first_offset AND last_offset < 1000000000000000000
                AND last_offset // 1000 - first_offset // 1000 < 1000
                THEN last_offset - first_offset + 1
            ELSE 0
        END AS size
    FROM {{ source('kshark', 'acquired') }}
),

deliveries AS (
    SELECT
        capture, steps.session_key, steps.session,
        sum(size) AS records_acquired,
        sum(CASE WHEN delivery_count > 1 THEN size ELSE 0 END) AS records_redelivered
    FROM acquired INNER JOIN steps USING (capture, flow_id, exchange, correlation_id)
    GROUP BY capture, steps.session_key, steps.session
),

acknowledgements AS (
    SELECT
        *,
        CASE
            WHEN len(types) <> 1 THEN 1
            WHEN
                first_offset >= 0 AND last_offset >= first_offset AND last_offset < 1000000000000000000
                AND last_offset // 1000 - first_offset // 1000 < 1000
                THEN last_offset - first_offset + 1
            ELSE 0
        END AS times
    FROM {{ source('kshark', 'acknowledgements') }}
    WHERE error_code = 0
),

answers AS (
    SELECT
        capture, steps.session_key, steps.session,
        sum(len(list_filter(types, lambda type: type = 1)) * times) AS records_accepted,
        sum(len(list_filter(types, lambda type: type = 2)) * times) AS records_released,
        sum(len(list_filter(types, lambda type: type = 3)) * times) AS records_rejected,
        sum(len(list_filter(types, lambda type: type = 4)) * times) AS records_renewed,
        sum(len(list_filter(types, lambda type: type = 0)) * times) AS offsets_without_record
    FROM acknowledgements INNER JOIN steps USING (capture, flow_id, exchange, correlation_id)
    GROUP BY capture, steps.session_key, steps.session
)

SELECT
    capture, group_id, member_id, broker, client, session,
    make_timestamp(opened_ts_ns // 1000) AT TIME ZONE 'UTC' AS opened,
    make_timestamp(closed_ts_ns // 1000) AT TIME ZONE 'UTC' AS closed,
    ended, connections, first_epoch, last_epoch, requests, accepted,
    fetches, acknowledge_requests, epoch_refusals, not_found_refusals, unanswered,
    coalesce(records_acquired, 0) AS records_acquired,
    coalesce(records_redelivered, 0) AS records_redelivered,
    coalesce(records_accepted, 0) AS records_accepted,
    coalesce(records_released, 0) AS records_released,
    coalesce(records_rejected, 0) AS records_rejected,
    coalesce(records_renewed, 0) AS records_renewed,
    coalesce(offsets_without_record, 0) AS offsets_without_record
FROM {{ source('kshark', 'sessions') }}
LEFT JOIN requests USING (capture, session_key, session)
LEFT JOIN deliveries USING (capture, session_key, session)
LEFT JOIN answers USING (capture, session_key, session)

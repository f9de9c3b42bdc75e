-- Made from ../../sql/epochs.sql by tools/dbt_models.py.
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
    FROM {{ ref('epochs') }}
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
FROM runs

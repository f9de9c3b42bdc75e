-- Made from ../../sql/capture_quality.sql by tools/dbt_models.py.
WITH connections AS (
    SELECT
        capture,
        count(*) AS connections,
        count(*) FILTER (WHERE service = 'kafka') AS kafka,
        count(*) FILTER (WHERE service = 'tls') AS encrypted,
        count(*) FILTER (WHERE service = 'kafka' AND opened_by IS NULL) AS begun_before,
        count(*) FILTER (WHERE service = 'kafka' AND (client_bytes = 0) <> (broker_bytes = 0)) AS one_sided,
        sum(client_bytes + broker_bytes) AS bytes,
        sum(gaps) AS gaps
    FROM {{ source('kshark', 'flows') }}
    GROUP BY capture
),

codes AS (
    SELECT
        capture, code,
        sum(times)::BIGINT AS times,
        sum(CASE WHEN kind = 'gap' AND size_bytes > 0 THEN size_bytes ELSE 0 END) AS missing_bytes
    FROM {{ source('kshark', 'weirds') }}
    GROUP BY capture, code
),

anomalies AS (
    SELECT
        capture,
        string_agg(code || ' x' || times, ', ' ORDER BY times DESC, code) AS anomalies,
        sum(CASE WHEN code = 'SNAP_LENGTH_CUT' THEN times ELSE 0 END) AS cut_packets,
        sum(missing_bytes) AS missing_bytes
    FROM codes
    GROUP BY capture
),

outcomes AS (
    SELECT
        capture,
        count(*) FILTER (WHERE outcome <> 'orphan') AS requests,
        count(*) FILTER (WHERE outcome = 'answered') AS answered,
        count(*) FILTER (WHERE outcome = 'unanswered') AS unanswered,
        count(*) FILTER (WHERE outcome = 'body_cut') AS body_cut,
        count(*) FILTER (WHERE outcome = 'orphan') AS orphans
    FROM {{ source('kshark', 'exchanges') }}
    GROUP BY capture
),

verdicts AS (
    SELECT
        capture,
        count(*) FILTER (WHERE verdict = 'violation') AS violations,
        count(*) FILTER (WHERE verdict = 'unknown') AS unproved,
        count(*) FILTER (WHERE verdict = 'note') AS notes
    FROM {{ source('kshark', 'findings') }}
    GROUP BY capture
),

unread AS (
    SELECT capture, min(code) AS fault FROM {{ source('kshark', 'faults') }} GROUP BY capture
),

captures AS (
    SELECT capture FROM connections
    UNION
    SELECT capture FROM unread
),

counts AS (
    SELECT
        capture,
        coalesce(connections, 0) AS connections,
        coalesce(kafka, 0) AS kafka,
        coalesce(encrypted, 0) AS encrypted,
        coalesce(begun_before, 0) AS begun_before,
        coalesce(one_sided, 0) AS one_sided,
        coalesce(bytes, 0) AS bytes,
        coalesce(gaps, 0) AS gaps,
        coalesce(missing_bytes, 0) AS missing_bytes,
        coalesce(cut_packets, 0) AS cut_packets,
        anomalies,
        coalesce(requests, 0) AS requests,
        coalesce(answered, 0) AS answered,
        coalesce(unanswered, 0) AS unanswered,
        coalesce(body_cut, 0) AS body_cut,
        coalesce(orphans, 0) AS orphans,
        coalesce(violations, 0) AS violations,
        coalesce(unproved, 0) AS unproved,
        coalesce(notes, 0) AS notes,
        fault
    FROM captures
    LEFT JOIN connections USING (capture)
    LEFT JOIN anomalies USING (capture)
    LEFT JOIN outcomes USING (capture)
    LEFT JOIN verdicts USING (capture)
    LEFT JOIN unread USING (capture)
),

reasons AS (
    SELECT
        *,
        concat_ws(
            ', ',
            'not read: ' || fault,
            CASE WHEN kafka = 0 THEN 'no Kafka connection' END,
            CASE WHEN encrypted > 0 THEN encrypted || ' encrypted' END,
            CASE WHEN gaps > 0 THEN gaps || ' gaps' END,
            CASE WHEN cut_packets > 0 THEN cut_packets || ' packets cut' END,
            CASE WHEN one_sided > 0 THEN one_sided || ' with one direction only' END,
            CASE WHEN begun_before > 0 THEN begun_before || ' begun before' END
        ) AS because
    FROM counts
)

SELECT
    *,
    CASE WHEN answered = 0 THEN 'nothing' WHEN because = '' THEN 'all' ELSE 'parts' END AS judged
FROM reasons

-- name: counts
SELECT kind, state, count(*) AS jobs, (now_us() - min(run_after)) / 1000000.0 AS oldest
FROM (
    SELECT kind, run_after,
           CASE WHEN dead THEN 'dead' WHEN claimed_until >= now_us() THEN 'running'
                WHEN run_after > now_us() THEN 'later' ELSE 'due' END AS state
    FROM work_queue
) AS job
GROUP BY kind, state ORDER BY kind, state

-- name: list
SELECT id, kind, state, attempts, enqueued_at, run_after, dedupe_key, claimed_by, program_schema, last_error, payload
FROM (
    SELECT id, kind, attempts, dedupe_key, claimed_by, program_schema, last_error, payload,
           enqueued_at, run_after,
           CASE WHEN dead THEN 'dead' WHEN claimed_until >= now_us() THEN 'running'
                WHEN run_after > now_us() THEN 'later' ELSE 'due' END AS state
    FROM work_queue
) AS job
WHERE coalesce(kind = :kind, true) AND coalesce(state = :state, true) AND coalesce(id = :id, true)
ORDER BY run_after, id LIMIT :limit

-- name: retry
-- A dead job begins anew; one that waits is due at once. One that runs is left alone.
UPDATE work_queue
SET attempts = CASE WHEN dead THEN 0 ELSE attempts END, dead = false, run_after = now_us(),
    claimed_by = NULL, claimed_until = NULL
WHERE id = :id AND (dead OR claimed_until IS NULL OR claimed_until < now_us())

-- name: drop
DELETE FROM work_queue WHERE id = :id AND (dead OR claimed_until IS NULL OR claimed_until < now_us())

-- name: prune
DELETE FROM work_queue WHERE id IN (
    SELECT id FROM (
        SELECT id, run_after, row_number() OVER (PARTITION BY kind ORDER BY id DESC) AS place
        FROM work_queue WHERE dead
    ) AS job
    WHERE run_after < now_us() - :days * 86400000000 OR place > :most
    LIMIT :limit
)

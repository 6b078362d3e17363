-- name: counts
SELECT kind, state, count(*) AS jobs, extract(epoch FROM now() - min(run_after))::double precision AS oldest
FROM (
    SELECT kind, run_after,
           CASE WHEN dead THEN 'dead' WHEN claimed_until >= now() THEN 'running'
                WHEN run_after > now() THEN 'later' ELSE 'due' END AS state
    FROM work_queue
) AS job
GROUP BY kind, state ORDER BY kind, state

-- name: list
SELECT id, kind, state, attempts, enqueued_at, run_after, dedupe_key, claimed_by, program_schema, last_error, payload
FROM (
    SELECT id, kind, attempts, dedupe_key, claimed_by, program_schema, last_error, payload,
           (extract(epoch FROM enqueued_at) * 1000000)::bigint AS enqueued_at,
           (extract(epoch FROM run_after) * 1000000)::bigint AS run_after,
           CASE WHEN dead THEN 'dead' WHEN claimed_until >= now() THEN 'running'
                WHEN run_after > now() THEN 'later' ELSE 'due' END AS state
    FROM work_queue
) AS job
WHERE coalesce(kind = %(kind)s::text, true) AND coalesce(state = %(state)s::text, true)
    AND coalesce(id = %(id)s::bigint, true)
ORDER BY run_after, id LIMIT %(limit)s

-- name: retry
-- A dead job begins anew; one that waits is due at once. One that runs is left alone.
UPDATE work_queue
SET attempts = CASE WHEN dead THEN 0 ELSE attempts END, dead = false, run_after = now(),
    claimed_by = NULL, claimed_until = NULL
WHERE id = %(id)s AND (dead OR claimed_until IS NULL OR claimed_until < now())

-- name: drop
DELETE FROM work_queue WHERE id = %(id)s AND (dead OR claimed_until IS NULL OR claimed_until < now())

-- name: prune
DELETE FROM work_queue WHERE id IN (
    SELECT id FROM (
        SELECT id, run_after, row_number() OVER (PARTITION BY kind ORDER BY id DESC) AS place
        FROM work_queue WHERE dead
    ) AS job
    WHERE run_after < now() - make_interval(days => %(days)s::int) OR place > %(most)s
    LIMIT %(limit)s
)

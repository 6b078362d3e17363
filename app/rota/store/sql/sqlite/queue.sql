-- name: enqueue
INSERT INTO work_queue (kind, payload, dedupe_key, keeps_key, program_schema, run_after, enqueued_at)
SELECT json_extract(value, '$.kind'), json_extract(value, '$.payload'), json_extract(value, '$.dedupe_key'),
       json_extract(value, '$.keeps_key'), :schema,
       now_us() + CAST(json_extract(value, '$.delay') * 1000000 AS INTEGER), now_us()
FROM json_each(:jobs)
WHERE true -- without it the parser takes ON for that of a join
ON CONFLICT (kind, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
RETURNING id

-- name: prepare
-- Nothing to prepare: SQLite follows the index of what is due.
SELECT 'off' AS sorting, :durable AS synchronous

-- name: claim
-- Of rows whose lease ran out only one is taken at a time, so that a job which
-- ends its worker does not take others down with it.
WITH found AS MATERIALIZED (
    SELECT id, claimed_by IS NOT NULL AS again
    FROM work_queue
    WHERE NOT dead AND run_after <= now_us() AND (claimed_until IS NULL OR claimed_until < now_us())
        AND program_schema <= :schema
        AND kind NOT IN (SELECT value FROM json_each(:barred))
    ORDER BY run_after, id
    LIMIT :limit
), chosen AS MATERIALIZED (
    SELECT id FROM found WHERE NOT again
    UNION ALL SELECT id FROM (SELECT id FROM found WHERE again LIMIT 1)
)
UPDATE work_queue
SET claimed_by = :worker, attempts = attempts + 1,
    claimed_until = now_us()
        + CAST(coalesce(json_extract(:leases, '$."' || kind || '"'), :lease) * 1000000 AS INTEGER),
    dedupe_key = CASE WHEN keeps_key THEN dedupe_key END
WHERE id IN (SELECT id FROM chosen)
RETURNING id, kind, payload, attempts

-- name: finish
DELETE FROM work_queue
WHERE id IN (SELECT value FROM json_each(:ids))
    AND (id, attempts) IN
        (SELECT value, json_extract(:attempts, '$[' || key || ']') FROM json_each(:ids))
    AND claimed_by = :worker

-- name: put_back
UPDATE work_queue
SET claimed_by = NULL, claimed_until = NULL, attempts = work_queue.attempts - back.uncounted, dead = back.dead,
    last_error = coalesce(back.error, last_error),
    run_after = coalesce(now_us() + CAST(back.delay * 1000000 AS INTEGER), run_after),
    dedupe_key = CASE WHEN back.dead THEN NULL ELSE dedupe_key END
FROM (
    SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.attempts') AS attempts,
           json_extract(value, '$.error') AS error, json_extract(value, '$.delay') AS delay,
           json_extract(value, '$.dead') AS dead, json_extract(value, '$.uncounted') AS uncounted
    FROM json_each(:back)
) AS back
WHERE work_queue.id = back.id AND work_queue.attempts = back.attempts AND claimed_by = :worker

-- name: renew
UPDATE work_queue
SET claimed_until = now_us() + CAST(held.lease * 1000000 AS INTEGER)
FROM (
    SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.attempts') AS attempts,
           json_extract(value, '$.lease') AS lease
    FROM json_each(:held)
) AS held
WHERE work_queue.id = held.id AND work_queue.attempts = held.attempts AND claimed_by = :worker
RETURNING work_queue.id

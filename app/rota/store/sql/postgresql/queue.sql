-- name: enqueue
INSERT INTO work_queue (kind, payload, dedupe_key, keeps_key, program_schema, run_after)
SELECT kind, payload, dedupe_key, keeps_key, %(schema)s, now() + make_interval(secs => delay)
FROM json_to_recordset(%(jobs)s::json)
    AS new (kind text, payload text, dedupe_key text, keeps_key boolean, delay double precision)
ON CONFLICT (kind, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
RETURNING id

-- name: prepare
-- For the claim in the same transaction. Without statistics, as after a burst,
-- the planner would read and sort the whole queue to find the first few that are
-- due. And a claim alone need not be on disk before it is acted on: what a crash
-- of the server forgets is claimed again, and its first worker refused.
SELECT set_config('enable_sort', 'off', true) AS sorting,
       set_config('synchronous_commit',
                  CASE WHEN %(durable)s THEN current_setting('synchronous_commit') ELSE 'off' END, true) AS synchronous

-- name: claim
-- The list of what is found is made once: in a sub-select the planner may ask
-- again and claim more. Of rows whose lease ran out only one is taken at a time,
-- so that a job which ends its worker does not take others down with it. That
-- ids are given as an array keeps the planner from reading the whole table.
WITH found AS MATERIALIZED (
    SELECT id, claimed_by IS NOT NULL AS again
    FROM work_queue
    WHERE NOT dead AND run_after <= now() AND (claimed_until IS NULL OR claimed_until < now())
        AND program_schema <= %(schema)s
        AND kind <> ALL (ARRAY(SELECT json_array_elements_text(%(barred)s::json)))
    ORDER BY run_after, id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), chosen AS MATERIALIZED (
    SELECT id FROM found WHERE NOT again
    UNION ALL (SELECT id FROM found WHERE again LIMIT 1)
)
UPDATE work_queue AS job
SET claimed_by = %(worker)s, attempts = job.attempts + 1,
    claimed_until = now()
        + make_interval(secs => coalesce((%(leases)s::jsonb ->> job.kind)::double precision, %(lease)s)),
    dedupe_key = CASE WHEN job.keeps_key THEN job.dedupe_key END
WHERE job.id = ANY (ARRAY(SELECT id FROM chosen))
RETURNING job.id, job.kind, job.payload, job.attempts

-- name: finish
-- With IS TRUE the pairs are looked up in a hash; as a join the planner, which
-- takes them for a handful, would compare each with each.
WITH done AS MATERIALIZED (
    SELECT id, attempts
    FROM unnest(string_to_array(btrim(%(ids)s, '[]'), ',')::bigint[],
                string_to_array(btrim(%(attempts)s, '[]'), ',')::integer[]) AS each (id, attempts)
)
DELETE FROM work_queue AS job
WHERE job.id = ANY (ARRAY(SELECT id FROM done))
    AND ((job.id, job.attempts) IN (SELECT id, attempts FROM done)) IS TRUE
    AND job.claimed_by = %(worker)s

-- name: put_back
WITH back AS MATERIALIZED (
    SELECT id, attempts, error, delay, dead, uncounted
    FROM json_to_recordset(%(back)s::json) AS each
        (id bigint, attempts integer, error text, delay double precision, dead boolean, uncounted integer)
)
UPDATE work_queue AS job
SET claimed_by = NULL, claimed_until = NULL, attempts = job.attempts - back.uncounted, dead = back.dead,
    last_error = coalesce(back.error, job.last_error),
    run_after = coalesce(now() + make_interval(secs => back.delay), job.run_after),
    dedupe_key = CASE WHEN back.dead THEN NULL ELSE job.dedupe_key END
FROM back
WHERE job.id = ANY (ARRAY(SELECT id FROM back)) AND job.id = back.id AND job.attempts = back.attempts
    AND job.claimed_by = %(worker)s

-- name: renew
WITH held AS MATERIALIZED (
    SELECT id, attempts, lease
    FROM json_to_recordset(%(held)s::json) AS each (id bigint, attempts integer, lease double precision)
)
UPDATE work_queue AS job
SET claimed_until = now() + make_interval(secs => held.lease)
FROM held
WHERE job.id = ANY (ARRAY(SELECT id FROM held)) AND job.id = held.id AND job.attempts = held.attempts
    AND job.claimed_by = %(worker)s
RETURNING job.id

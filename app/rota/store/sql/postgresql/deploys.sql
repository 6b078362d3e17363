-- name: add
INSERT INTO deploys (app, cause, release, before, build, actor, asked)
VALUES (%(app)s, %(cause)s, %(release)s, %(before)s, %(build)s, %(actor)s, %(asked)s)
ON CONFLICT DO NOTHING
RETURNING id

-- name: find
SELECT id, app, cause, release, before, build, state, cancelling, actor, asked, plan, reason,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM ended_at) * 1000000)::bigint AS ended_at
FROM deploys WHERE id = %(id)s

-- name: running
SELECT id, app, cause, release, before, build, state, cancelling, actor, asked, plan, reason,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM ended_at) * 1000000)::bigint AS ended_at
FROM deploys WHERE state = 'running' AND (app = %(app)s OR %(app)s = '') ORDER BY id

-- name: of
SELECT id, app, cause, release, before, build, state, cancelling, actor, asked, plan, reason,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM ended_at) * 1000000)::bigint AS ended_at
FROM deploys WHERE app = %(app)s ORDER BY id DESC LIMIT %(limit)s

-- name: set_release
UPDATE deploys SET release = %(release)s WHERE id = %(id)s AND state = 'running'

-- name: set_plan
UPDATE deploys SET plan = %(plan)s WHERE id = %(id)s

-- name: cancel
UPDATE deploys SET cancelling = true WHERE id = %(id)s AND state = 'running'

-- name: end
UPDATE deploys SET state = %(state)s, reason = %(reason)s, ended_at = now() WHERE id = %(id)s AND state = 'running'

-- name: steps
SELECT number, kind, work, state, reason,
    (extract(epoch FROM started_at) * 1000000)::bigint AS started_at,
    (extract(epoch FROM ended_at) * 1000000)::bigint AS ended_at
FROM deploy_steps WHERE deploy = %(deploy)s ORDER BY number

-- name: add_step
INSERT INTO deploy_steps (deploy, number, kind, work) VALUES (%(deploy)s, %(number)s, %(kind)s, %(work)s)
ON CONFLICT (deploy, number) DO NOTHING

-- name: begin_step
UPDATE deploy_steps SET state = 'running', started_at = coalesce(started_at, now())
WHERE deploy = %(deploy)s AND number = %(number)s AND state IN ('waiting', 'running')

-- name: work_step
UPDATE deploy_steps SET work = %(work)s WHERE deploy = %(deploy)s AND number = %(number)s

-- name: end_step
UPDATE deploy_steps SET state = %(state)s, reason = %(reason)s, ended_at = now()
WHERE deploy = %(deploy)s AND number = %(number)s AND state IN ('waiting', 'running')

-- name: wait
INSERT INTO waiting (subject, reason) VALUES (%(subject)s, %(reason)s)
ON CONFLICT (subject) DO UPDATE SET reason = excluded.reason

-- name: wait_no_more
DELETE FROM waiting WHERE subject = %(subject)s

-- name: waiting
SELECT subject, reason, (extract(epoch FROM since) * 1000000)::bigint AS since FROM waiting ORDER BY subject

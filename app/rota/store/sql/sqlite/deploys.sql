-- name: add
INSERT INTO deploys (app, cause, release, before, build, actor, asked, created_at)
VALUES (:app, :cause, :release, :before, :build, :actor, :asked, now_us())
ON CONFLICT DO NOTHING
RETURNING id

-- name: find
SELECT id, app, cause, release, before, build, state, cancelling, actor, asked, plan, reason, created_at, ended_at
FROM deploys WHERE id = :id

-- name: running
SELECT id, app, cause, release, before, build, state, cancelling, actor, asked, plan, reason, created_at, ended_at
FROM deploys WHERE state = 'running' AND (app = :app OR :app = '') ORDER BY id

-- name: of
SELECT id, app, cause, release, before, build, state, cancelling, actor, asked, plan, reason, created_at, ended_at
FROM deploys WHERE app = :app ORDER BY id DESC LIMIT :limit

-- name: set_release
UPDATE deploys SET release = :release WHERE id = :id AND state = 'running'

-- name: set_plan
UPDATE deploys SET plan = :plan WHERE id = :id

-- name: cancel
UPDATE deploys SET cancelling = 1 WHERE id = :id AND state = 'running'

-- name: end
UPDATE deploys SET state = :state, reason = :reason, ended_at = now_us() WHERE id = :id AND state = 'running'

-- name: steps
SELECT number, kind, work, state, reason, started_at, ended_at
FROM deploy_steps WHERE deploy = :deploy ORDER BY number

-- name: add_step
INSERT INTO deploy_steps (deploy, number, kind, work) VALUES (:deploy, :number, :kind, :work)
ON CONFLICT (deploy, number) DO NOTHING

-- name: begin_step
UPDATE deploy_steps SET state = 'running', started_at = coalesce(started_at, now_us())
WHERE deploy = :deploy AND number = :number AND state IN ('waiting', 'running')

-- name: work_step
UPDATE deploy_steps SET work = :work WHERE deploy = :deploy AND number = :number

-- name: end_step
UPDATE deploy_steps SET state = :state, reason = :reason, ended_at = now_us()
WHERE deploy = :deploy AND number = :number AND state IN ('waiting', 'running')

-- name: wait
INSERT INTO waiting (subject, reason, since) VALUES (:subject, :reason, now_us())
ON CONFLICT (subject) DO UPDATE SET reason = excluded.reason

-- name: wait_no_more
DELETE FROM waiting WHERE subject = :subject

-- name: waiting
SELECT subject, reason, since FROM waiting ORDER BY subject

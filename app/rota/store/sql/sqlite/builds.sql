-- name: find
SELECT id, app, source, state, artifact, manifest, reason, actor, created_at, started_at, ended_at
FROM builds WHERE id = :id

-- name: of
SELECT id, app, source, state, artifact, manifest, reason, actor, created_at, started_at, ended_at
FROM builds WHERE app = :app ORDER BY id DESC LIMIT :limit

-- name: underway
SELECT id, app, source, state, artifact, manifest, reason, actor, created_at, started_at, ended_at
FROM builds WHERE state IN ('waiting', 'running') ORDER BY id

-- name: add
INSERT INTO builds (app, source, actor, created_at) VALUES (:app, :source, :actor, now_us()) RETURNING id

-- name: begin
UPDATE builds SET state = 'running', started_at = coalesce(started_at, now_us())
WHERE id = :id AND state IN ('waiting', 'running')

-- name: finish
UPDATE builds SET state = 'done', artifact = :artifact, manifest = :manifest, ended_at = now_us()
WHERE id = :id AND state = 'running'

-- name: end
UPDATE builds SET state = :state, reason = :reason, ended_at = now_us()
WHERE id = :id AND state IN ('waiting', 'running')

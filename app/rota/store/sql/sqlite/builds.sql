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

-- name: say
INSERT INTO build_output (build, number, text) VALUES (:id, :number, :text)
ON CONFLICT (build, number) DO NOTHING

-- name: output
SELECT number, text FROM build_output WHERE build = :id AND number >= :number
ORDER BY number LIMIT :limit

-- name: silence
DELETE FROM build_output WHERE build = :id

-- name: prune_output
DELETE FROM build_output WHERE build IN (SELECT id FROM builds WHERE ended_at < now_us() - :days * 86400000000)

-- name: prune
DELETE FROM builds WHERE ended_at < now_us() - :days * 86400000000
    AND NOT EXISTS (SELECT 1 FROM releases WHERE releases.build = builds.id)

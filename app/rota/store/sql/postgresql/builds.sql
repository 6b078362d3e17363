-- name: find
SELECT id, app, source, state, artifact, manifest, reason, actor,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM started_at) * 1000000)::bigint AS started_at,
    (extract(epoch FROM ended_at) * 1000000)::bigint AS ended_at
FROM builds WHERE id = %(id)s

-- name: of
SELECT id, app, source, state, artifact, manifest, reason, actor,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM started_at) * 1000000)::bigint AS started_at,
    (extract(epoch FROM ended_at) * 1000000)::bigint AS ended_at
FROM builds WHERE app = %(app)s ORDER BY id DESC LIMIT %(limit)s

-- name: underway
SELECT id, app, source, state, artifact, manifest, reason, actor,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM started_at) * 1000000)::bigint AS started_at,
    (extract(epoch FROM ended_at) * 1000000)::bigint AS ended_at
FROM builds WHERE state IN ('waiting', 'running') ORDER BY id

-- name: add
INSERT INTO builds (app, source, actor) VALUES (%(app)s, %(source)s, %(actor)s) RETURNING id

-- name: begin
UPDATE builds SET state = 'running', started_at = coalesce(started_at, now())
WHERE id = %(id)s AND state IN ('waiting', 'running')

-- name: finish
UPDATE builds SET state = 'done', artifact = %(artifact)s, manifest = %(manifest)s, ended_at = now()
WHERE id = %(id)s AND state = 'running'

-- name: end
UPDATE builds SET state = %(state)s, reason = %(reason)s, ended_at = now()
WHERE id = %(id)s AND state IN ('waiting', 'running')

-- name: say
INSERT INTO build_output (build, number, text) VALUES (%(id)s, %(number)s, %(text)s)
ON CONFLICT (build, number) DO NOTHING

-- name: output
SELECT number, text FROM build_output WHERE build = %(id)s AND number >= %(number)s
ORDER BY number LIMIT %(limit)s

-- name: silence
DELETE FROM build_output WHERE build = %(id)s

-- name: prune_output
DELETE FROM build_output WHERE build IN (SELECT id FROM builds WHERE ended_at < now() - make_interval(days => %(days)s))

-- name: prune
DELETE FROM builds WHERE ended_at < now() - make_interval(days => %(days)s)
    AND NOT EXISTS (SELECT 1 FROM releases WHERE releases.build = builds.id)

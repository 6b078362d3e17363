-- name: all
SELECT name, app, source, actor, created_at
FROM domains WHERE app = :app OR :app = '' ORDER BY app, name

-- name: find
SELECT name, app, source, actor, created_at
FROM domains WHERE name = :name

-- name: add
INSERT INTO domains (name, app, source, actor, created_at) VALUES (:name, :app, :source, :actor, now_us())
ON CONFLICT (name) DO UPDATE SET source = excluded.source, actor = excluded.actor WHERE domains.app = excluded.app

-- name: remove
DELETE FROM domains WHERE name = :name AND app = :app

-- name: all
SELECT name, app, source, actor, (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM domains WHERE app = %(app)s OR %(app)s = '' ORDER BY app, name

-- name: find
SELECT name, app, source, actor, (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM domains WHERE name = %(name)s

-- name: add
INSERT INTO domains (name, app, source, actor, created_at) VALUES (%(name)s, %(app)s, %(source)s, %(actor)s, now())
ON CONFLICT (name) DO UPDATE SET source = excluded.source, actor = excluded.actor WHERE domains.app = excluded.app

-- name: remove
DELETE FROM domains WHERE name = %(name)s AND app = %(app)s

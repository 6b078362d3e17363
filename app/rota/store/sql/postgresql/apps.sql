-- name: all
SELECT name, release, version, gated,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM apps ORDER BY name

-- name: find
SELECT name, release, version, gated,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM apps WHERE name = %(name)s

-- name: hold
SELECT name, release, version, gated,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM apps WHERE name = %(name)s FOR UPDATE

-- name: add
INSERT INTO apps (name) VALUES (%(name)s) ON CONFLICT (name) DO NOTHING

-- name: move
UPDATE apps SET release = %(release)s, version = version + 1 WHERE name = %(name)s AND version = %(version)s

-- name: gate
UPDATE apps SET gated = %(gated)s WHERE name = %(name)s

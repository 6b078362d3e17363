-- name: all
SELECT hash, sha256, size, kind,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM used_at) * 1000000)::bigint AS used_at
FROM artifacts ORDER BY artifacts.used_at, hash

-- name: find
SELECT hash, sha256, size, kind,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM used_at) * 1000000)::bigint AS used_at
FROM artifacts WHERE hash = %(hash)s

-- name: add
INSERT INTO artifacts (hash, sha256, size, kind) VALUES (%(hash)s, %(sha)s, %(size)s, %(kind)s)
ON CONFLICT (hash) DO UPDATE SET used_at = now()

-- name: use
UPDATE artifacts SET used_at = now() WHERE hash = %(hash)s

-- name: remove
DELETE FROM artifacts WHERE hash = %(hash)s AND used_at <= now() - make_interval(secs => %(idle)s)

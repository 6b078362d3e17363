-- name: newest
SELECT app, number, names, sealed, actor, (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM configurations WHERE app = %(app)s ORDER BY number DESC LIMIT 1

-- name: find
SELECT app, number, names, sealed, actor, (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM configurations WHERE app = %(app)s AND number = %(number)s

-- name: of
SELECT app, number, names, sealed, actor, (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM configurations WHERE app = %(app)s ORDER BY number DESC

-- name: add
INSERT INTO configurations (app, number, names, sealed, actor)
VALUES (%(app)s, %(number)s, %(names)s, %(sealed)s, %(actor)s) ON CONFLICT (app, number) DO NOTHING

-- name: remove
DELETE FROM configurations WHERE app = %(app)s AND number = %(number)s

-- name: key
SELECT public FROM configuration_keys ORDER BY created_at DESC, public LIMIT 1

-- name: tell_key
INSERT INTO configuration_keys (public) VALUES (%(public)s)
ON CONFLICT (public) DO UPDATE SET created_at = now()

-- name: ask
INSERT INTO configuration_openings (app, number, public)
VALUES (%(app)s, %(number)s, %(public)s) RETURNING id

-- name: opening
SELECT id, app, number, public, sealed, reason FROM configuration_openings WHERE id = %(id)s

-- name: answer
UPDATE configuration_openings SET sealed = %(sealed)s, reason = %(reason)s WHERE id = %(id)s

-- name: forget
DELETE FROM configuration_openings WHERE id = %(id)s OR created_at <= now() - make_interval(secs => %(older)s)

-- name: newest
SELECT app, number, names, sealed, actor, created_at
FROM configurations WHERE app = :app ORDER BY number DESC LIMIT 1

-- name: find
SELECT app, number, names, sealed, actor, created_at
FROM configurations WHERE app = :app AND number = :number

-- name: of
SELECT app, number, names, sealed, actor, created_at
FROM configurations WHERE app = :app ORDER BY number DESC

-- name: add
INSERT INTO configurations (app, number, names, sealed, actor, created_at)
VALUES (:app, :number, :names, :sealed, :actor, now_us()) ON CONFLICT (app, number) DO NOTHING

-- name: remove
DELETE FROM configurations WHERE app = :app AND number = :number

-- name: key
SELECT public FROM configuration_keys ORDER BY created_at DESC, public LIMIT 1

-- name: tell_key
INSERT INTO configuration_keys (public, created_at) VALUES (:public, now_us())
ON CONFLICT (public) DO UPDATE SET created_at = now_us()

-- name: ask
INSERT INTO configuration_openings (app, number, public, created_at)
VALUES (:app, :number, :public, now_us()) RETURNING id

-- name: opening
SELECT id, app, number, public, sealed, reason FROM configuration_openings WHERE id = :id

-- name: answer
UPDATE configuration_openings SET sealed = :sealed, reason = :reason WHERE id = :id

-- name: forget
DELETE FROM configuration_openings WHERE id = :id OR created_at <= now_us() - :older * 1000000

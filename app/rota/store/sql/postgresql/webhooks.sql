-- name: add
INSERT INTO webhooks (id, url, kinds, app, secret, since)
VALUES (%(id)s, %(url)s, %(kinds)s, %(app)s, %(secret)s, %(since)s)

-- name: all
SELECT id, url, kinds, app, active, since, (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM webhooks ORDER BY created_at, id

-- name: find
SELECT id, url, kinds, app, active, since, (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM webhooks WHERE id = %(id)s

-- name: change
-- What is not given stays. One that is made active again is told of what comes after the act that did so.
UPDATE webhooks
SET url = coalesce(%(url)s::text, url), kinds = coalesce(%(kinds)s::text, kinds),
    app = coalesce(%(app)s::text, app), active = coalesce(%(active)s::boolean, active),
    since = CASE WHEN active OR NOT coalesce(%(active)s::boolean, active) THEN since ELSE %(since)s END
WHERE id = %(id)s

-- name: remove
DELETE FROM webhooks WHERE id = %(id)s

-- name: cursor
SELECT position, root FROM webhooks_cursor

-- name: move
-- Only from where it was read: of two that walk, one gets further.
UPDATE webhooks_cursor SET position = %(position)s, root = %(root)s WHERE position = %(before)s

-- name: begin
INSERT INTO webhooks_cursor (position, root) VALUES (%(position)s, %(root)s) ON CONFLICT (one) DO NOTHING

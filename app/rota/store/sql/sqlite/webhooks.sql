-- name: add
INSERT INTO webhooks (id, url, kinds, app, secret, since, created_at)
VALUES (:id, :url, :kinds, :app, :secret, :since, now_us())

-- name: all
SELECT id, url, kinds, app, active, since, created_at FROM webhooks ORDER BY created_at, id

-- name: find
SELECT id, url, kinds, app, active, since, created_at FROM webhooks WHERE id = :id

-- name: change
-- What is not given stays. One that is made active again is told of what comes after the act that did so.
UPDATE webhooks
SET url = coalesce(:url, url), kinds = coalesce(:kinds, kinds),
    app = coalesce(:app, app), active = coalesce(:active, active),
    since = CASE WHEN active OR NOT coalesce(:active, active) THEN since ELSE :since END
WHERE id = :id

-- name: remove
DELETE FROM webhooks WHERE id = :id

-- name: cursor
SELECT position, root FROM webhooks_cursor

-- name: move
-- Only from where it was read: of two that walk, one gets further.
UPDATE webhooks_cursor SET position = :position, root = :root WHERE position = :before

-- name: begin
INSERT INTO webhooks_cursor (position, root) VALUES (:position, :root) ON CONFLICT (one) DO NOTHING

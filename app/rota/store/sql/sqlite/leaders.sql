-- name: raise_epoch
INSERT INTO leaders (task, epoch, holder, since) VALUES (:task, 1, :holder, now_us())
ON CONFLICT (task) DO UPDATE SET epoch = epoch + 1, holder = excluded.holder, since = now_us()
RETURNING epoch, (SELECT generation FROM hub) AS generation

-- name: still_leads
SELECT task FROM leaders, hub
WHERE task = :task AND epoch = :epoch AND generation = :generation

-- name: all
SELECT task, epoch, holder, since FROM leaders ORDER BY task

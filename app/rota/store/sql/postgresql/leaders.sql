-- name: raise_epoch
INSERT INTO leaders AS held (task, epoch, holder, since)
VALUES (%(task)s, 1, %(holder)s, now())
ON CONFLICT (task) DO UPDATE SET epoch = held.epoch + 1, holder = excluded.holder, since = now()
RETURNING epoch, (SELECT generation FROM hub) AS generation

-- name: still_leads
-- The row stays locked until the transaction ends, so that no successor can
-- raise the epoch between this check and the commit.
SELECT task FROM leaders, hub
WHERE task = %(task)s AND epoch = %(epoch)s AND generation = %(generation)s
FOR SHARE OF leaders

-- name: all
SELECT task, epoch, holder, (extract(epoch FROM since) * 1000000)::bigint AS since
FROM leaders ORDER BY task

-- name: begin
INSERT INTO backups (name, cause, state) VALUES (%(name)s, %(cause)s, 'running')

-- name: complete
UPDATE backups SET state = 'complete', finished_at = now(), size = %(size)s, digest = %(digest)s
WHERE name = %(name)s AND state = 'running'

-- name: fail
UPDATE backups SET state = 'failed', finished_at = now(), error = %(error)s
WHERE name = %(name)s AND state = 'running'

-- name: remove
UPDATE backups SET state = 'removed' WHERE name = %(name)s AND state IN ('complete', 'running', 'failed')

-- name: all
SELECT name, cause, state, (extract(epoch FROM started_at) * 1000000)::bigint AS started_at,
       (extract(epoch FROM finished_at) * 1000000)::bigint AS finished_at, size, digest, error
FROM backups ORDER BY started_at DESC, name DESC

-- name: last_scheduled
-- What a clock that was wrong dated into the future does not count.
SELECT (extract(epoch FROM max(started_at) FILTER (WHERE state <> 'failed')) * 1000000)::bigint AS at,
       (extract(epoch FROM max(started_at) FILTER (WHERE state = 'failed')) * 1000000)::bigint AS failed_at,
       (extract(epoch FROM now()) * 1000000)::bigint AS now
FROM backups WHERE cause = 'schedule' AND started_at <= now()

-- name: prune
DELETE FROM backups
WHERE state IN ('removed', 'failed') AND started_at < now() - make_interval(days => %(days)s::int)

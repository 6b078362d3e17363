-- name: begin
INSERT INTO backups (name, cause, state, started_at) VALUES (:name, :cause, 'running', now_us())

-- name: complete
UPDATE backups SET state = 'complete', finished_at = now_us(), size = :size, digest = :digest
WHERE name = :name AND state = 'running'

-- name: fail
UPDATE backups SET state = 'failed', finished_at = now_us(), error = :error
WHERE name = :name AND state = 'running'

-- name: remove
UPDATE backups SET state = 'removed' WHERE name = :name AND state IN ('complete', 'running', 'failed')

-- name: all
SELECT name, cause, state, started_at, finished_at, size, digest, error
FROM backups ORDER BY started_at DESC, name DESC

-- name: last_scheduled
-- What a clock that was wrong dated into the future does not count.
SELECT max(started_at) FILTER (WHERE state <> 'failed') AS at,
       max(started_at) FILTER (WHERE state = 'failed') AS failed_at,
       now_us() AS now
FROM backups WHERE cause = 'schedule' AND started_at <= now_us()

-- name: prune
DELETE FROM backups
WHERE state IN ('removed', 'failed') AND started_at < now_us() - :days * 86400000000

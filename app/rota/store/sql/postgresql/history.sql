-- name: begin
INSERT INTO task_history (task) VALUES (%(task)s) RETURNING id

-- name: abandon
UPDATE task_history SET finished_at = now(), outcome = 'its process ended before it did'
WHERE task = %(task)s AND finished_at IS NULL

-- name: finish
UPDATE task_history SET finished_at = now(), outcome = %(outcome)s WHERE id = %(id)s

-- name: last
-- What a clock that was wrong dated into the future does not count.
SELECT (extract(epoch FROM max(started_at)) * 1000000)::bigint AS at, (extract(epoch FROM now()) * 1000000)::bigint AS now
FROM task_history WHERE task = %(task)s AND started_at <= now()

-- name: recent
SELECT task, (extract(epoch FROM started_at) * 1000000)::bigint AS started_at,
       (extract(epoch FROM finished_at) * 1000000)::bigint AS finished_at, outcome
FROM task_history ORDER BY started_at DESC LIMIT %(limit)s

-- name: prune
DELETE FROM task_history WHERE started_at < now() - make_interval(days => %(days)s::int)

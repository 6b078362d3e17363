-- name: begin
INSERT INTO task_history (task, started_at) VALUES (:task, now_us()) RETURNING id

-- name: abandon
UPDATE task_history SET finished_at = now_us(), outcome = 'its process ended before it did'
WHERE task = :task AND finished_at IS NULL

-- name: finish
UPDATE task_history SET finished_at = now_us(), outcome = :outcome WHERE id = :id

-- name: last
-- What a clock that was wrong dated into the future does not count.
SELECT max(started_at) AS at, now_us() AS now FROM task_history WHERE task = :task AND started_at <= now_us()

-- name: recent
SELECT task, started_at, finished_at, outcome
FROM task_history ORDER BY started_at DESC LIMIT :limit

-- name: prune
DELETE FROM task_history WHERE started_at < now_us() - :days * 86400000000

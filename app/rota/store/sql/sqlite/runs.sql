-- name: add
INSERT INTO runs (app, kind, release, command, server, deploy, created_at)
VALUES (:app, :kind, :release, :command, :server, :deploy, now_us())
RETURNING id

-- name: find
SELECT id, app, kind, release, command, server, state, exit_code, reason, deploy, created_at, started_at, ended_at
FROM runs WHERE id = :id

-- name: of_deploy
SELECT id, app, kind, release, command, server, state, exit_code, reason, deploy, created_at, started_at, ended_at
FROM runs WHERE deploy = :deploy AND kind = :kind ORDER BY id

-- name: underway
SELECT id, app, kind, release, command, server, state, exit_code, reason, deploy, created_at, started_at, ended_at
FROM runs WHERE state IN ('waiting', 'running') ORDER BY id

-- name: begin
UPDATE runs SET state = 'running', started_at = now_us() WHERE id = :id AND state = 'waiting'

-- name: end
UPDATE runs SET state = :state, exit_code = :exit_code, reason = :reason, ended_at = now_us()
WHERE id = :id AND state IN ('waiting', 'running')

-- name: add
INSERT INTO runs (app, kind, release, command, server, deploy)
VALUES (%(app)s, %(kind)s, %(release)s, %(command)s, %(server)s, %(deploy)s)
RETURNING id

-- name: find
SELECT id, app, kind, release, command, server, state, exit_code, reason, deploy,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM started_at) * 1000000)::bigint AS started_at,
    (extract(epoch FROM ended_at) * 1000000)::bigint AS ended_at
FROM runs WHERE id = %(id)s

-- name: of_deploy
SELECT id, app, kind, release, command, server, state, exit_code, reason, deploy,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM started_at) * 1000000)::bigint AS started_at,
    (extract(epoch FROM ended_at) * 1000000)::bigint AS ended_at
FROM runs WHERE deploy = %(deploy)s AND kind = %(kind)s ORDER BY id

-- name: underway
SELECT id, app, kind, release, command, server, state, exit_code, reason, deploy,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM started_at) * 1000000)::bigint AS started_at,
    (extract(epoch FROM ended_at) * 1000000)::bigint AS ended_at
FROM runs WHERE state IN ('waiting', 'running') ORDER BY id

-- name: begin
UPDATE runs SET state = 'running', started_at = now() WHERE id = %(id)s AND state = 'waiting'

-- name: end
UPDATE runs SET state = %(state)s, exit_code = %(exit_code)s, reason = %(reason)s, ended_at = now()
WHERE id = %(id)s AND state IN ('waiting', 'running')

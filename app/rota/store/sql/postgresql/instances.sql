-- name: live
SELECT id, name, app, process_type, release, server, port, state, reasons, deploy,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM changed_at) * 1000000)::bigint AS changed_at
FROM instances WHERE state <> 'stopped' AND (app = %(app)s OR %(app)s = '') ORDER BY app, process_type, name, release, id

-- name: find
SELECT id, name, app, process_type, release, server, port, state, reasons, deploy,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM changed_at) * 1000000)::bigint AS changed_at
FROM instances WHERE id = %(id)s

-- name: newest
SELECT id, name, app, process_type, release, server, port, state, reasons, deploy,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM changed_at) * 1000000)::bigint AS changed_at
FROM instances WHERE name = %(name)s ORDER BY id DESC LIMIT 1

-- name: of_deploy
SELECT id, name, app, process_type, release, server, port, state, reasons, deploy,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM changed_at) * 1000000)::bigint AS changed_at
FROM instances WHERE deploy = %(deploy)s ORDER BY id

-- name: ports
SELECT server, port FROM instances WHERE state <> 'stopped' ORDER BY server, port

-- name: add
INSERT INTO instances (name, app, process_type, release, server, port, state, reasons, deploy)
VALUES (%(name)s, %(app)s, %(process_type)s, %(release)s, %(server)s, %(port)s, 'placed', %(reasons)s, %(deploy)s)
RETURNING id

-- name: move
UPDATE instances SET state = %(state)s, changed_at = now() WHERE id = %(id)s AND state <> 'stopped'

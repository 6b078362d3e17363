-- name: live
SELECT id, name, app, process_type, release, server, port, state, reasons, deploy, created_at, changed_at
FROM instances WHERE state <> 'stopped' AND (app = :app OR :app = '') ORDER BY app, process_type, name, release, id

-- name: find
SELECT id, name, app, process_type, release, server, port, state, reasons, deploy, created_at, changed_at
FROM instances WHERE id = :id

-- name: newest
SELECT id, name, app, process_type, release, server, port, state, reasons, deploy, created_at, changed_at
FROM instances WHERE name = :name ORDER BY id DESC LIMIT 1

-- name: of_deploy
SELECT id, name, app, process_type, release, server, port, state, reasons, deploy, created_at, changed_at
FROM instances WHERE deploy = :deploy ORDER BY id

-- name: ports
SELECT server, port FROM instances WHERE state <> 'stopped' ORDER BY server, port

-- name: add
INSERT INTO instances (name, app, process_type, release, server, port, state, reasons, deploy, created_at, changed_at)
VALUES (:name, :app, :process_type, :release, :server, :port, 'placed', :reasons, :deploy, now_us(), now_us())
RETURNING id

-- name: move
UPDATE instances SET state = :state, changed_at = now_us() WHERE id = :id AND state <> 'stopped'

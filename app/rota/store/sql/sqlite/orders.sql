-- name: put
INSERT INTO server_outbox (server, kind, subject, body, act, created_at)
VALUES (:server, :kind, :subject, :body, :act, now_us())
RETURNING id

-- name: waiting_servers
SELECT DISTINCT server FROM server_outbox WHERE state = 'waiting' ORDER BY server

-- name: next
SELECT id, server, kind, subject, body, act, seq, reason FROM server_outbox
WHERE server = :server AND state = 'waiting' ORDER BY id LIMIT 1

-- name: advance
UPDATE servers SET seq_out = seq_out + 1 WHERE name = :server

-- name: number
UPDATE server_outbox SET seq = (SELECT seq_out FROM servers WHERE name = :server)
WHERE id = :id AND state = 'waiting'

-- name: renumber
UPDATE servers SET seq_out = :seq WHERE name = :server

-- name: unnumber
UPDATE server_outbox SET seq = NULL WHERE id = :id

-- name: end
UPDATE server_outbox SET state = :state, reason = :reason, ended_at = now_us()
WHERE id = :id AND state = 'waiting'

-- name: explain
UPDATE server_outbox SET reason = :reason WHERE id = :id AND state = 'waiting'

-- name: outcome
SELECT state, reason FROM server_outbox WHERE id = :id

-- name: drop
UPDATE server_outbox SET state = 'dropped', reason = :reason, ended_at = now_us()
WHERE server = :server AND state = 'waiting'

-- name: counts
SELECT server, count(*) AS waiting FROM server_outbox WHERE state = 'waiting' GROUP BY server ORDER BY server

-- name: prune
DELETE FROM server_outbox WHERE state <> 'waiting' AND ended_at < now_us() - :days * 86400000000

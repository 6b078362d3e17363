-- name: put
INSERT INTO server_outbox (server, kind, subject, body, act)
VALUES (%(server)s, %(kind)s, %(subject)s, %(body)s, %(act)s)
RETURNING id

-- name: waiting_servers
SELECT DISTINCT server FROM server_outbox WHERE state = 'waiting' ORDER BY server

-- name: next
SELECT id, server, kind, subject, body, act, seq, reason FROM server_outbox
WHERE server = %(server)s AND state = 'waiting' ORDER BY id LIMIT 1

-- name: advance
UPDATE servers SET seq_out = seq_out + 1 WHERE name = %(server)s

-- name: number
UPDATE server_outbox SET seq = (SELECT seq_out FROM servers WHERE name = %(server)s)
WHERE id = %(id)s AND state = 'waiting'

-- name: renumber
UPDATE servers SET seq_out = %(seq)s WHERE name = %(server)s

-- name: unnumber
UPDATE server_outbox SET seq = NULL WHERE id = %(id)s

-- name: end
UPDATE server_outbox SET state = %(state)s, reason = %(reason)s, ended_at = now()
WHERE id = %(id)s AND state = 'waiting'

-- name: explain
UPDATE server_outbox SET reason = %(reason)s WHERE id = %(id)s AND state = 'waiting'

-- name: outcome
SELECT state, reason FROM server_outbox WHERE id = %(id)s

-- name: drop
UPDATE server_outbox SET state = 'dropped', reason = %(reason)s, ended_at = now()
WHERE server = %(server)s AND state = 'waiting'

-- name: counts
SELECT server, count(*) AS waiting FROM server_outbox WHERE state = 'waiting' GROUP BY server ORDER BY server

-- name: prune
DELETE FROM server_outbox WHERE state <> 'waiting' AND ended_at < now() - make_interval(days => %(days)s)

-- name: all
SELECT app, shut, allowed, version FROM gates ORDER BY app

-- name: find
SELECT app, shut, allowed, version FROM gates WHERE app = %(app)s

-- name: put
INSERT INTO gates (app, shut, allowed) VALUES (%(app)s, %(shut)s, %(allowed)s)
ON CONFLICT (app) DO UPDATE SET shut = excluded.shut, allowed = excluded.allowed, version = gates.version + 1

-- name: let_in
INSERT INTO gate_tokens (id, app, account, session, ends_at)
VALUES (%(id)s, %(app)s, %(account)s, %(session)s, now() + make_interval(secs => %(lasts)s))

-- name: revoked
SELECT gate_tokens.id FROM gate_tokens
LEFT JOIN sessions ON sessions.id = gate_tokens.session AND sessions.expires_at > now()
LEFT JOIN accounts ON accounts.id = gate_tokens.account AND NOT accounts.disabled
WHERE gate_tokens.ends_at > now() AND (sessions.id IS NULL OR accounts.id IS NULL) ORDER BY gate_tokens.id

-- name: prune
DELETE FROM gate_tokens WHERE ends_at < now()

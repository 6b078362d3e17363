-- name: begin
INSERT INTO sessions (account, digest, expires_at)
SELECT id, %(digest)s, now() + make_interval(secs => %(seconds)s::float8) FROM accounts
WHERE id = %(account)s AND password = coalesce(%(password)s::text, password) AND NOT disabled
-- A change of the account ends its sessions: it waits for this one, or this one for it.
FOR SHARE
RETURNING id

-- name: caller
SELECT sessions.id, account, name, scopes, seen_at < now() - make_interval(secs => %(stale)s::float8) AS stale
FROM sessions JOIN accounts ON accounts.id = account
WHERE digest = %(digest)s AND expires_at > now() AND NOT disabled

-- name: seen
UPDATE sessions SET seen_at = now(), expires_at = now() + make_interval(secs => %(seconds)s::float8)
WHERE id = %(id)s

-- name: finish
DELETE FROM sessions WHERE id = %(id)s

-- name: finish_others
DELETE FROM sessions WHERE account = %(account)s AND id <> %(kept)s

-- name: prune
DELETE FROM sessions WHERE expires_at < now()

-- name: begin
INSERT INTO sessions (account, digest, created_at, seen_at, expires_at)
SELECT id, :digest, now_us(), now_us(), now_us() + :seconds * 1000000 FROM accounts
WHERE id = :account AND password = coalesce(:password, password) AND NOT disabled
RETURNING id

-- name: caller
SELECT sessions.id, account, name, scopes, seen_at < now_us() - :stale * 1000000 AS stale
FROM sessions JOIN accounts ON accounts.id = account
WHERE digest = :digest AND expires_at > now_us() AND NOT disabled

-- name: seen
UPDATE sessions SET seen_at = now_us(), expires_at = now_us() + :seconds * 1000000 WHERE id = :id

-- name: finish
DELETE FROM sessions WHERE id = :id

-- name: finish_others
DELETE FROM sessions WHERE account = :account AND id <> :kept

-- name: prune
DELETE FROM sessions WHERE expires_at < now_us()

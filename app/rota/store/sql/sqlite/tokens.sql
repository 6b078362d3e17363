-- name: create
INSERT INTO api_tokens (account, name, digest, scopes, created_at, expires_at)
VALUES (:account, :name, :digest, :scopes, now_us(), now_us() + :seconds * 1000000)
ON CONFLICT DO NOTHING RETURNING id

-- name: caller
SELECT api_tokens.id, account, accounts.name, api_tokens.name AS token_name, api_tokens.scopes,
    accounts.scopes AS account_scopes, coalesce(used_at < now_us() - :stale * 1000000, 1) AS stale
FROM api_tokens JOIN accounts ON accounts.id = account
WHERE digest = :digest AND revoked_at IS NULL AND coalesce(expires_at > now_us(), 1) AND NOT disabled

-- name: used
UPDATE api_tokens SET used_at = now_us() WHERE id = :id

-- name: list
SELECT api_tokens.id, accounts.name AS account, api_tokens.name, api_tokens.scopes, api_tokens.created_at,
    expires_at, used_at, revoked_at, coalesce(expires_at <= now_us(), 0) AS expired
FROM api_tokens JOIN accounts ON accounts.id = account
WHERE coalesce(account = :account, 1) AND coalesce(api_tokens.id = :id, 1) ORDER BY api_tokens.id DESC

-- name: revoke
UPDATE api_tokens SET revoked_at = now_us() WHERE id = :id AND revoked_at IS NULL

-- name: prune
DELETE FROM api_tokens WHERE coalesce(revoked_at, expires_at) < now_us() - :days * 86400000000

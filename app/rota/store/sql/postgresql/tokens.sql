-- name: create
INSERT INTO api_tokens (account, name, digest, scopes, expires_at)
VALUES (%(account)s, %(name)s, %(digest)s, %(scopes)s, now() + make_interval(secs => %(seconds)s::float8))
ON CONFLICT DO NOTHING RETURNING id

-- name: caller
SELECT api_tokens.id, account, accounts.name, api_tokens.name AS token_name, api_tokens.scopes,
    accounts.scopes AS account_scopes,
    coalesce(used_at < now() - make_interval(secs => %(stale)s::float8), true) AS stale
FROM api_tokens JOIN accounts ON accounts.id = account
WHERE digest = %(digest)s AND revoked_at IS NULL AND coalesce(expires_at > now(), true) AND NOT disabled

-- name: used
UPDATE api_tokens SET used_at = now() WHERE id = %(id)s

-- name: list
SELECT api_tokens.id, accounts.name AS account, api_tokens.name, api_tokens.scopes,
    (extract(epoch FROM api_tokens.created_at) * 1000000)::bigint AS created_at,
    (extract(epoch FROM expires_at) * 1000000)::bigint AS expires_at,
    (extract(epoch FROM used_at) * 1000000)::bigint AS used_at,
    (extract(epoch FROM revoked_at) * 1000000)::bigint AS revoked_at,
    coalesce(expires_at <= now(), false) AS expired
FROM api_tokens JOIN accounts ON accounts.id = account
WHERE coalesce(account = %(account)s::bigint, true) AND coalesce(api_tokens.id = %(id)s::bigint, true)
ORDER BY api_tokens.id DESC

-- name: revoke
UPDATE api_tokens SET revoked_at = now() WHERE id = %(id)s AND revoked_at IS NULL

-- name: prune
DELETE FROM api_tokens
WHERE coalesce(revoked_at, expires_at) < now() - make_interval(days => %(days)s::int)

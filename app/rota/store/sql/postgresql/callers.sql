-- name: standing
SELECT 'session' AS kind, sessions.id, scopes, scopes AS account_scopes
FROM sessions JOIN accounts ON accounts.id = account
WHERE sessions.id IN (SELECT value::bigint FROM json_array_elements_text(%(sessions)s::json)) AND expires_at > now() AND NOT disabled
UNION ALL
SELECT 'token', api_tokens.id, api_tokens.scopes, accounts.scopes
FROM api_tokens JOIN accounts ON accounts.id = account
WHERE api_tokens.id IN (SELECT value::bigint FROM json_array_elements_text(%(tokens)s::json)) AND revoked_at IS NULL
    AND coalesce(expires_at > now(), true) AND NOT disabled

-- name: create
INSERT INTO accounts (name, password, scopes) VALUES (%(name)s, %(password)s, %(scopes)s)
ON CONFLICT (name) DO NOTHING RETURNING id

-- name: all
SELECT id, name, scopes, disabled, (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM accounts ORDER BY name

-- name: password
SELECT id, password FROM accounts WHERE name = %(name)s AND NOT disabled

-- name: find
SELECT id, name, scopes, disabled, (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM accounts WHERE name = %(name)s

-- name: change
UPDATE accounts SET scopes = coalesce(%(scopes)s::text, scopes), disabled = coalesce(%(disabled)s::boolean, disabled),
    password = coalesce(%(password)s::text, password)
WHERE name = %(name)s RETURNING id

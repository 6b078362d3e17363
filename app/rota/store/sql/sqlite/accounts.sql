-- name: create
INSERT INTO accounts (name, password, scopes, created_at) VALUES (:name, :password, :scopes, now_us())
ON CONFLICT (name) DO NOTHING RETURNING id

-- name: all
SELECT id, name, scopes, disabled, created_at FROM accounts ORDER BY name

-- name: password
SELECT id, password FROM accounts WHERE name = :name AND NOT disabled

-- name: find
SELECT id, name, scopes, disabled, created_at FROM accounts WHERE name = :name

-- name: change
UPDATE accounts SET scopes = coalesce(:scopes, scopes), disabled = coalesce(:disabled, disabled),
    password = coalesce(:password, password)
WHERE name = :name RETURNING id

-- name: all
SELECT name, chain, key, identity, fingerprint, begins_at, ends_at, served_at
FROM certificates ORDER BY name

-- name: put
INSERT INTO certificates (name, chain, key, identity, fingerprint, begins_at, ends_at)
VALUES (:name, :chain, :key, :identity, :fingerprint, :begins_at, :ends_at)
ON CONFLICT (name) DO UPDATE SET chain = excluded.chain, key = excluded.key, identity = excluded.identity,
    fingerprint = excluded.fingerprint, begins_at = excluded.begins_at, ends_at = excluded.ends_at, served_at = NULL

-- name: remove
DELETE FROM certificates WHERE name = :name

-- name: served
UPDATE certificates SET served_at = now_us() WHERE name = :name AND fingerprint = :fingerprint

-- name: unserved
UPDATE certificates SET served_at = NULL WHERE name = :name AND fingerprint = :fingerprint AND served_at IS NOT NULL

-- name: orders
SELECT name, tries, tried_at, reason FROM certificate_orders ORDER BY name

-- name: tried
INSERT INTO certificate_orders (name, tries, tried_at, reason) VALUES (:name, 1, now_us(), :reason)
ON CONFLICT (name) DO UPDATE SET tries = certificate_orders.tries + 1, tried_at = now_us(), reason = excluded.reason

-- name: settled
DELETE FROM certificate_orders WHERE name = :name

-- name: account
SELECT directory, key, identity, uri FROM acme_accounts WHERE directory = :directory

-- name: put_account
INSERT INTO acme_accounts (directory, key, identity, uri) VALUES (:directory, :key, :identity, :uri)
ON CONFLICT (directory) DO UPDATE SET key = excluded.key, identity = excluded.identity, uri = excluded.uri

-- name: answer
SELECT answer FROM acme_answers WHERE token = :token

-- name: put_answer
INSERT INTO acme_answers (token, answer, created_at) VALUES (:token, :answer, now_us()) ON CONFLICT (token) DO NOTHING

-- name: prune_answers
DELETE FROM acme_answers WHERE created_at < now_us() - 86400 * 1000000

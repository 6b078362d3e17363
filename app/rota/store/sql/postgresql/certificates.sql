-- name: all
SELECT name, chain, key, identity, fingerprint, (extract(epoch FROM begins_at) * 1000000)::bigint AS begins_at, (extract(epoch FROM ends_at) * 1000000)::bigint AS ends_at, (extract(epoch FROM served_at) * 1000000)::bigint AS served_at
FROM certificates ORDER BY name

-- name: put
INSERT INTO certificates (name, chain, key, identity, fingerprint, begins_at, ends_at)
VALUES (%(name)s, %(chain)s, %(key)s, %(identity)s, %(fingerprint)s, to_timestamp(%(begins_at)s::double precision / 1000000), to_timestamp(%(ends_at)s::double precision / 1000000))
ON CONFLICT (name) DO UPDATE SET chain = excluded.chain, key = excluded.key, identity = excluded.identity,
    fingerprint = excluded.fingerprint, begins_at = excluded.begins_at, ends_at = excluded.ends_at, served_at = NULL

-- name: remove
DELETE FROM certificates WHERE name = %(name)s

-- name: served
UPDATE certificates SET served_at = now() WHERE name = %(name)s AND fingerprint = %(fingerprint)s

-- name: unserved
UPDATE certificates SET served_at = NULL WHERE name = %(name)s AND fingerprint = %(fingerprint)s AND served_at IS NOT NULL

-- name: orders
SELECT name, tries, (extract(epoch FROM tried_at) * 1000000)::bigint AS tried_at, reason FROM certificate_orders ORDER BY name

-- name: tried
INSERT INTO certificate_orders (name, tries, tried_at, reason) VALUES (%(name)s, 1, now(), %(reason)s)
ON CONFLICT (name) DO UPDATE SET tries = certificate_orders.tries + 1, tried_at = now(), reason = excluded.reason

-- name: settled
DELETE FROM certificate_orders WHERE name = %(name)s

-- name: account
SELECT directory, key, identity, uri FROM acme_accounts WHERE directory = %(directory)s

-- name: put_account
INSERT INTO acme_accounts (directory, key, identity, uri) VALUES (%(directory)s, %(key)s, %(identity)s, %(uri)s)
ON CONFLICT (directory) DO UPDATE SET key = excluded.key, identity = excluded.identity, uri = excluded.uri

-- name: answer
SELECT answer FROM acme_answers WHERE token = %(token)s

-- name: put_answer
INSERT INTO acme_answers (token, answer, created_at) VALUES (%(token)s, %(answer)s, now()) ON CONFLICT (token) DO NOTHING

-- name: prune_answers
DELETE FROM acme_answers WHERE created_at < now() - interval '1 day'

-- name: hub
SELECT identity, generation, (extract(epoch FROM now()) * 1000000)::bigint AS now FROM hub

-- name: hub_keys
SELECT public_key FROM hub_keys ORDER BY rank

-- name: drop_hub_keys
DELETE FROM hub_keys

-- name: add_hub_key
INSERT INTO hub_keys (public_key, rank) VALUES (%(public_key)s, %(rank)s)

-- name: all
SELECT name, address, endpoint, state, is_primary, distribution, capabilities, agent_version, wireguard_key,
    first_port, ports, report, session_in, session_out, seq_out, hub_key,
    (extract(epoch FROM token_ends_at) * 1000000)::bigint AS token_ends_at,
    (extract(epoch FROM enrolled_at) * 1000000)::bigint AS enrolled_at,
    (extract(epoch FROM reported_at) * 1000000)::bigint AS reported_at,
    (extract(epoch FROM lost_at) * 1000000)::bigint AS lost_at
FROM servers ORDER BY name

-- name: find
SELECT name, address, endpoint, state, is_primary, distribution, capabilities, agent_version, wireguard_key,
    first_port, ports, report, session_in, session_out, seq_out, hub_key,
    (extract(epoch FROM token_ends_at) * 1000000)::bigint AS token_ends_at,
    (extract(epoch FROM enrolled_at) * 1000000)::bigint AS enrolled_at,
    (extract(epoch FROM reported_at) * 1000000)::bigint AS reported_at,
    (extract(epoch FROM lost_at) * 1000000)::bigint AS lost_at
FROM servers WHERE name = %(name)s

-- name: at_address
SELECT name FROM servers WHERE address = %(address)s

-- name: await
-- One that is enrolled stays so until the new enrolment is completed.
INSERT INTO servers AS known
    (name, address, endpoint, state, is_primary, token, token_ends_at, wireguard_key)
VALUES (%(name)s, %(address)s, %(endpoint)s, 'awaited', %(is_primary)s, %(token)s, now() + make_interval(secs => %(lasts)s), %(wireguard_key)s)
ON CONFLICT (name) DO UPDATE SET
    address = excluded.address,
    endpoint = excluded.endpoint,
    state = CASE WHEN known.state = 'enrolled' THEN 'enrolled' ELSE 'awaited' END,
    is_primary = excluded.is_primary,
    token = excluded.token,
    token_ends_at = excluded.token_ends_at,
    wireguard_key = CASE WHEN excluded.wireguard_key = '' THEN known.wireguard_key
                         ELSE excluded.wireguard_key END

-- name: token
SELECT token, token_ends_at <= now() AS ended FROM servers WHERE name = %(name)s

-- name: enrol
-- Whoever finds the token uses it up: of two, one is enrolled.
UPDATE servers
SET state = 'enrolled', token = NULL, token_ends_at = NULL, distribution = %(distribution)s,
    capabilities = %(capabilities)s, agent_version = %(agent_version)s,
    wireguard_key = CASE WHEN %(wireguard_key)s::text = '' THEN wireguard_key ELSE %(wireguard_key)s::text END,
    enrolled_at = now(), reported_at = now(), lost_at = NULL, report = '',
    session_in = %(session_in)s, seq_in = 0, session_out = %(session_out)s, seq_out = 0, hub_key = %(hub_key)s
WHERE name = %(name)s AND token = %(token)s AND token_ends_at > now()

-- name: end_keys
-- For ever: a key that was taken from a server is never its key again.
UPDATE server_keys SET ends_at = now(), revoked_at = now()
WHERE server = %(server)s AND public_key <> %(public_key)s AND revoked_at IS NULL

-- name: add_key
INSERT INTO server_keys AS known (server, public_key) VALUES (%(server)s, %(public_key)s)
ON CONFLICT (server, public_key) DO UPDATE SET ends_at = NULL WHERE known.revoked_at IS NULL

-- name: replace_key
UPDATE server_keys SET ends_at = now() + make_interval(days => %(days)s)
WHERE server = %(server)s AND public_key <> %(public_key)s AND ends_at IS NULL AND revoked_at IS NULL

-- name: by_key
SELECT k.server, k.public_key, (extract(epoch FROM k.ends_at) * 1000000)::bigint AS ends_at, k.revoked_at IS NOT NULL AS revoked, (extract(epoch FROM now()) * 1000000)::bigint AS now
FROM server_keys k WHERE k.public_key = %(public_key)s

-- name: keys
SELECT k.public_key, (extract(epoch FROM k.ends_at) * 1000000)::bigint AS ends_at, k.revoked_at IS NOT NULL AS revoked
FROM server_keys k WHERE k.server = %(server)s ORDER BY k.since, k.public_key

-- name: lock
SELECT state, session_in, seq_in, report, lost_at IS NOT NULL AS lost, is_primary
FROM servers WHERE name = %(name)s FOR UPDATE

-- name: report
UPDATE servers
SET seq_in = %(seq)s, report = %(report)s, agent_version = %(agent_version)s, reported_at = now(), lost_at = NULL
WHERE name = %(name)s

-- name: number_in
UPDATE servers SET seq_in = %(seq)s WHERE name = %(name)s

-- name: forget_instances
DELETE FROM reported_instances WHERE server = %(server)s

-- name: put_instance
INSERT INTO reported_instances
    (server, instance, app, release, state, healthy, address, port, restarts, reason)
VALUES (%(server)s, %(instance)s, %(app)s, %(release)s, %(state)s, %(healthy)s, %(address)s, %(port)s, %(restarts)s, %(reason)s)

-- name: instances
SELECT server, instance, app, release, state, healthy, address, port, restarts, reason, (extract(epoch FROM since) * 1000000)::bigint AS since
FROM reported_instances WHERE app = %(app)s OR %(app)s = '' ORDER BY app, instance, release, server

-- name: lose
UPDATE servers SET lost_at = now()
WHERE name = %(name)s AND lost_at IS NULL AND (extract(epoch FROM reported_at) * 1000000)::bigint = %(reported_at)s

-- name: heard
SELECT name, (extract(epoch FROM reported_at) * 1000000)::bigint AS reported_at, lost_at IS NOT NULL AS lost, (extract(epoch FROM now()) * 1000000)::bigint AS now
FROM servers WHERE state = 'enrolled' ORDER BY name

-- name: sent_key
UPDATE servers SET hub_key = %(hub_key)s WHERE name = %(name)s

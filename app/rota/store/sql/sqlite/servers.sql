-- name: hub
SELECT identity, generation, now_us() AS now FROM hub

-- name: hub_keys
SELECT public_key FROM hub_keys ORDER BY rank

-- name: drop_hub_keys
DELETE FROM hub_keys

-- name: add_hub_key
INSERT INTO hub_keys (public_key, rank, since) VALUES (:public_key, :rank, now_us())

-- name: all
SELECT name, address, endpoint, state, is_primary, distribution, capabilities, agent_version, wireguard_key,
    first_port, ports, report, session_in, session_out, seq_out, hub_key, token_ends_at, enrolled_at,
    reported_at, lost_at
FROM servers ORDER BY name

-- name: find
SELECT name, address, endpoint, state, is_primary, distribution, capabilities, agent_version, wireguard_key,
    first_port, ports, report, session_in, session_out, seq_out, hub_key, token_ends_at, enrolled_at,
    reported_at, lost_at
FROM servers WHERE name = :name

-- name: at_address
SELECT name FROM servers WHERE address = :address

-- name: await
-- One that is enrolled stays so until the new enrolment is completed.
INSERT INTO servers AS known
    (name, address, endpoint, state, is_primary, token, token_ends_at, wireguard_key, created_at)
VALUES (:name, :address, :endpoint, 'awaited', :is_primary, :token, now_us() + :lasts * 1000000, :wireguard_key, now_us())
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
SELECT token, token_ends_at <= now_us() AS ended FROM servers WHERE name = :name

-- name: enrol
-- Whoever finds the token uses it up: of two, one is enrolled.
UPDATE servers
SET state = 'enrolled', token = NULL, token_ends_at = NULL, distribution = :distribution,
    capabilities = :capabilities, agent_version = :agent_version,
    wireguard_key = CASE WHEN :wireguard_key = '' THEN wireguard_key ELSE :wireguard_key END,
    enrolled_at = now_us(), reported_at = now_us(), lost_at = NULL, report = '',
    session_in = :session_in, seq_in = 0, session_out = :session_out, seq_out = 0, hub_key = :hub_key
WHERE name = :name AND token = :token AND token_ends_at > now_us()

-- name: end_keys
-- For ever: a key that was taken from a server is never its key again.
UPDATE server_keys SET ends_at = now_us(), revoked_at = now_us()
WHERE server = :server AND public_key <> :public_key AND revoked_at IS NULL

-- name: add_key
INSERT INTO server_keys AS known (server, public_key, since) VALUES (:server, :public_key, now_us())
ON CONFLICT (server, public_key) DO UPDATE SET ends_at = NULL WHERE known.revoked_at IS NULL

-- name: replace_key
UPDATE server_keys SET ends_at = now_us() + :days * 86400000000
WHERE server = :server AND public_key <> :public_key AND ends_at IS NULL AND revoked_at IS NULL

-- name: by_key
SELECT k.server, k.public_key, k.ends_at AS ends_at, k.revoked_at IS NOT NULL AS revoked, now_us() AS now
FROM server_keys k WHERE k.public_key = :public_key

-- name: keys
SELECT k.public_key, k.ends_at AS ends_at, k.revoked_at IS NOT NULL AS revoked
FROM server_keys k WHERE k.server = :server ORDER BY k.since, k.public_key

-- name: lock
SELECT state, session_in, seq_in, report, lost_at IS NOT NULL AS lost, is_primary
FROM servers WHERE name = :name

-- name: report
UPDATE servers
SET seq_in = :seq, report = :report, agent_version = :agent_version, reported_at = now_us(), lost_at = NULL
WHERE name = :name

-- name: number_in
UPDATE servers SET seq_in = :seq WHERE name = :name

-- name: forget_instances
DELETE FROM reported_instances WHERE server = :server

-- name: put_instance
INSERT INTO reported_instances
    (server, instance, app, release, state, healthy, address, port, restarts, reason, since)
VALUES (:server, :instance, :app, :release, :state, :healthy, :address, :port, :restarts, :reason, now_us())

-- name: instances
SELECT server, instance, app, release, state, healthy, address, port, restarts, reason, since AS since
FROM reported_instances WHERE app = :app OR :app = '' ORDER BY app, instance, release, server

-- name: lose
UPDATE servers SET lost_at = now_us()
WHERE name = :name AND lost_at IS NULL AND reported_at = :reported_at

-- name: heard
SELECT name, reported_at AS reported_at, lost_at IS NOT NULL AS lost, now_us() AS now
FROM servers WHERE state = 'enrolled' ORDER BY name

-- name: sent_key
UPDATE servers SET hub_key = :hub_key WHERE name = :name

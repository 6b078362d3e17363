-- tolerates: 1
-- Servers: who is enrolled, with which keys, what each last reported, and what is on its way to it.
-- Whom messages are meant for: hub: and this.
ALTER TABLE hub ADD COLUMN identity text NOT NULL DEFAULT '';
UPDATE hub SET identity = replace(gen_random_uuid()::text, '-', '');

-- The public keys with which the hub signs what it tells its servers, the newest in `rank` 0.
CREATE TABLE hub_keys (
    public_key text PRIMARY KEY,
    rank integer NOT NULL,
    since timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE servers (
    name text PRIMARY KEY,
    -- its address on the private network, and how it is reached from outside (HOST:PORT), if known
    address text NOT NULL UNIQUE,
    endpoint text NOT NULL DEFAULT '',
    state text NOT NULL CHECK (state IN ('awaited', 'enrolled', 'removed')),
    -- whether this server is the primary
    is_primary boolean NOT NULL DEFAULT false,
    -- of the one-use token: its hash in hex, null once used
    token text,
    token_ends_at timestamptz,
    -- as said at enrolment: "debian 13", and a JSON object of capabilities
    distribution text NOT NULL DEFAULT '',
    capabilities text NOT NULL DEFAULT '{}',
    agent_version text NOT NULL DEFAULT '',
    wireguard_key text NOT NULL DEFAULT '',
    -- the ports that its instances may have
    first_port integer NOT NULL DEFAULT 20000,
    ports integer NOT NULL DEFAULT 1000,
    created_at timestamptz NOT NULL DEFAULT now(),
    enrolled_at timestamptz,
    -- what it last reported, as JSON, and when that arrived; lost_at while its reports are missing
    report text NOT NULL DEFAULT '',
    reported_at timestamptz,
    lost_at timestamptz,
    -- from the server to the hub: the session that the hub chose, and the highest number accepted in it
    session_in text NOT NULL DEFAULT '',
    seq_in bigint NOT NULL DEFAULT 0,
    -- from the hub to the server: the session that the server chose, and the last number sent in it
    session_out text NOT NULL DEFAULT '',
    seq_out bigint NOT NULL DEFAULT 0,
    -- the hub's key that the server knows
    hub_key text NOT NULL DEFAULT ''
);

CREATE TABLE server_keys (
    server text NOT NULL,
    -- Ed25519, raw, in base64
    public_key text NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    -- when it is no longer accepted, null while nothing replaces it; revoked ones are kept for ever
    ends_at timestamptz,
    revoked_at timestamptz,
    PRIMARY KEY (server, public_key)
);

-- What the hub wants of a server, in order. servers.link alone sends it.
CREATE TABLE server_outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    server text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('place', 'start', 'stop', 'rotate')),
    -- of an instance (shop.web.1) or a run (run-17); empty for rotate
    subject text NOT NULL,
    -- what the sender needs to make the message, as JSON; never a value of an app's configuration
    body text NOT NULL,
    -- the row of tlog_outbox whose index must be known before this is sent, null for none
    act bigint,
    -- the number with which it was sent, null before the first try
    seq bigint,
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'done', 'refused', 'dropped')),
    -- why it was refused, or what kept the last try from arriving
    reason text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz
);
CREATE INDEX server_outbox_waiting ON server_outbox (server, id) WHERE state = 'waiting';

-- What each server last said of each instance it knows: the newest report's rows, replaced as a whole.
CREATE TABLE reported_instances (
    server text NOT NULL,
    instance text NOT NULL,
    app text NOT NULL,
    release bigint NOT NULL,
    -- placed, starting, running, restarting, failed, stopped
    state text NOT NULL,
    healthy boolean NOT NULL,
    address text NOT NULL,
    port integer NOT NULL,
    restarts integer NOT NULL DEFAULT 0,
    -- why it is not well, with its last lines
    reason text NOT NULL DEFAULT '',
    since timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (server, instance, release)
);

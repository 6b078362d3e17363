-- tolerates: 1
-- Servers: who is enrolled, with which keys, what each last reported, and what is on its way to it.
-- Times are whole microseconds since 1970, UTC.
-- Whom messages are meant for: hub: and this.
ALTER TABLE hub ADD COLUMN identity TEXT NOT NULL DEFAULT '';
UPDATE hub SET identity = lower(hex(randomblob(16)));

-- The public keys with which the hub signs what it tells its servers, the newest in `rank` 0.
CREATE TABLE hub_keys (
    public_key TEXT PRIMARY KEY,
    rank INTEGER NOT NULL,
    since INTEGER NOT NULL
) STRICT;

CREATE TABLE servers (
    name TEXT PRIMARY KEY,
    -- its address on the private network, and how it is reached from outside (HOST:PORT), if known
    address TEXT NOT NULL UNIQUE,
    endpoint TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL CHECK (state IN ('awaited', 'enrolled', 'removed')),
    -- whether this server is the primary
    is_primary INTEGER NOT NULL DEFAULT 0,
    -- of the one-use token: its hash in hex, null once used
    token TEXT,
    token_ends_at INTEGER,
    -- as said at enrolment: "debian 13", and a JSON object of capabilities
    distribution TEXT NOT NULL DEFAULT '',
    capabilities TEXT NOT NULL DEFAULT '{}',
    agent_version TEXT NOT NULL DEFAULT '',
    wireguard_key TEXT NOT NULL DEFAULT '',
    -- the ports that its instances may have
    first_port INTEGER NOT NULL DEFAULT 20000,
    ports INTEGER NOT NULL DEFAULT 1000,
    created_at INTEGER NOT NULL,
    enrolled_at INTEGER,
    -- what it last reported, as JSON, and when that arrived; lost_at while its reports are missing
    report TEXT NOT NULL DEFAULT '',
    reported_at INTEGER,
    lost_at INTEGER,
    -- from the server to the hub: the session that the hub chose, and the highest number accepted in it
    session_in TEXT NOT NULL DEFAULT '',
    seq_in INTEGER NOT NULL DEFAULT 0,
    -- from the hub to the server: the session that the server chose, and the last number sent in it
    session_out TEXT NOT NULL DEFAULT '',
    seq_out INTEGER NOT NULL DEFAULT 0,
    -- the hub's key that the server knows
    hub_key TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE server_keys (
    server TEXT NOT NULL,
    -- Ed25519, raw, in base64
    public_key TEXT NOT NULL,
    since INTEGER NOT NULL,
    -- when it is no longer accepted, null while nothing replaces it; revoked ones are kept for ever
    ends_at INTEGER,
    revoked_at INTEGER,
    PRIMARY KEY (server, public_key)
) STRICT;

-- What the hub wants of a server, in order. servers.link alone sends it.
CREATE TABLE server_outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    server TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('place', 'start', 'stop', 'rotate')),
    -- of an instance (shop.web.1) or a run (run-17); empty for rotate
    subject TEXT NOT NULL,
    -- what the sender needs to make the message, as JSON; never a value of an app's configuration
    body TEXT NOT NULL,
    -- the row of tlog_outbox whose index must be known before this is sent, null for none
    act INTEGER,
    -- the number with which it was sent, null before the first try
    seq INTEGER,
    state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'done', 'refused', 'dropped')),
    -- why it was refused, or what kept the last try from arriving
    reason TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
CREATE INDEX server_outbox_waiting ON server_outbox (server, id) WHERE state = 'waiting';

-- What each server last said of each instance it knows: the newest report's rows, replaced as a whole.
CREATE TABLE reported_instances (
    server TEXT NOT NULL,
    instance TEXT NOT NULL,
    app TEXT NOT NULL,
    release INTEGER NOT NULL,
    -- placed, starting, running, restarting, failed, stopped
    state TEXT NOT NULL,
    healthy INTEGER NOT NULL,
    address TEXT NOT NULL,
    port INTEGER NOT NULL,
    restarts INTEGER NOT NULL DEFAULT 0,
    -- why it is not well, with its last lines
    reason TEXT NOT NULL DEFAULT '',
    since INTEGER NOT NULL,
    PRIMARY KEY (server, instance, release)
) STRICT;

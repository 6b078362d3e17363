-- tolerates: 1
-- Apps: their artifacts, builds, releases and configuration.
-- Times are whole microseconds since 1970, UTC.
CREATE TABLE apps (
    name TEXT PRIMARY KEY,
    -- the release that serves, null before the first; moved by compare-and-set on version
    release INTEGER,
    version INTEGER NOT NULL DEFAULT 1,
    -- whether who visits it must be signed in
    gated INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT;

-- What is kept in the artifact store. A row stands only for what was verified there.
CREATE TABLE artifacts (
    -- BLAKE3 and SHA-256 in hex, size in bytes
    hash TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL,
    size INTEGER NOT NULL,
    -- source: packed by the person deploying; build: what servers run
    kind TEXT NOT NULL CHECK (kind IN ('source', 'build')),
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
) STRICT;

CREATE TABLE builds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    app TEXT NOT NULL,
    source TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled', 'lost')),
    -- of the build that is done: its artifact, and what it runs, as JSON (rota.builds.manifest)
    artifact TEXT,
    manifest TEXT NOT NULL DEFAULT '{}',
    reason TEXT NOT NULL DEFAULT '',
    actor TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER
) STRICT;

-- What builds said, in pieces in order; kept as long as their builds.
CREATE TABLE build_output (
    build INTEGER NOT NULL,
    number INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (build, number)
) STRICT;

-- The public keys to which configuration is sealed; the newest counts. Only the primary's worker opens.
CREATE TABLE configuration_keys (
    -- X25519, in base64url
    public TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT;

-- Each version of an app's configuration as a whole; number 0, which has no row, is the empty one.
CREATE TABLE configurations (
    app TEXT NOT NULL,
    number INTEGER NOT NULL,
    -- JSON object: name → random id of the value's version; nothing derived from a value
    names TEXT NOT NULL,
    -- JSON object: name → value, sealed by itself
    sealed TEXT NOT NULL,
    actor TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (app, number)
) STRICT;

-- Values that somebody asked to see: opened by the primary's worker, sealed again to who asked.
CREATE TABLE configuration_openings (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    app TEXT NOT NULL,
    number INTEGER NOT NULL,
    -- a key made for this one answer, in base64url
    public TEXT NOT NULL,
    -- the answer, null until it is there; a reason instead where it cannot be given
    sealed TEXT,
    reason TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE releases (
    app TEXT NOT NULL,
    number INTEGER NOT NULL,
    artifact TEXT NOT NULL,
    configuration INTEGER NOT NULL,
    -- the statement's bytes as they stand in the log, and its row in tlog_outbox
    statement TEXT NOT NULL,
    act INTEGER NOT NULL,
    build INTEGER,
    -- why it was made: deploy, config, rollback to N
    cause TEXT NOT NULL,
    actor TEXT NOT NULL,
    -- whether it ever served: only such a release is one to go back to
    served INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (app, number)
) STRICT;

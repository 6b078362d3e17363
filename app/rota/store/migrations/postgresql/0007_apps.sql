-- tolerates: 1
-- Apps: their artifacts, builds, releases and configuration.
CREATE TABLE apps (
    name text PRIMARY KEY,
    -- the release that serves, null before the first; moved by compare-and-set on version
    release bigint,
    version bigint NOT NULL DEFAULT 1,
    -- whether who visits it must be signed in
    gated boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- What is kept in the artifact store. A row stands only for what was verified there.
CREATE TABLE artifacts (
    -- BLAKE3 and SHA-256 in hex, size in bytes
    hash text PRIMARY KEY,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    -- source: packed by the person deploying; build: what servers run
    kind text NOT NULL CHECK (kind IN ('source', 'build')),
    created_at timestamptz NOT NULL DEFAULT now(),
    used_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE builds (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app text NOT NULL,
    source text NOT NULL,
    state text NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled', 'lost')),
    -- of the build that is done: its artifact, and what it runs, as JSON (rota.builds.manifest)
    artifact text,
    manifest text NOT NULL DEFAULT '{}',
    reason text NOT NULL DEFAULT '',
    actor text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz
);

-- What builds said, in pieces in order; kept as long as their builds.
CREATE TABLE build_output (
    build bigint NOT NULL,
    number bigint NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (build, number)
);

-- The public keys to which configuration is sealed; the newest counts. Only the primary's worker opens.
CREATE TABLE configuration_keys (
    -- X25519, in base64url
    public text PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Each version of an app's configuration as a whole; number 0, which has no row, is the empty one.
CREATE TABLE configurations (
    app text NOT NULL,
    number bigint NOT NULL,
    -- JSON object: name → random id of the value's version; nothing derived from a value
    names text NOT NULL,
    -- JSON object: name → value, sealed by itself
    sealed text NOT NULL,
    actor text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app, number)
);

-- Values that somebody asked to see: opened by the primary's worker, sealed again to who asked.
CREATE TABLE configuration_openings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app text NOT NULL,
    number bigint NOT NULL,
    -- a key made for this one answer, in base64url
    public text NOT NULL,
    -- the answer, null until it is there; a reason instead where it cannot be given
    sealed text,
    reason text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE releases (
    app text NOT NULL,
    number bigint NOT NULL,
    artifact text NOT NULL,
    configuration bigint NOT NULL,
    -- the statement's bytes as they stand in the log, and its row in tlog_outbox
    statement text NOT NULL,
    act bigint NOT NULL,
    build bigint,
    -- why it was made: deploy, config, rollback to N
    cause text NOT NULL,
    actor text NOT NULL,
    -- whether it ever served: only such a release is one to go back to
    served boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app, number)
);

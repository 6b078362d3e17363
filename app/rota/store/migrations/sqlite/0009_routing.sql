-- tolerates: 1
-- Routing: the names of apps, their certificates, and who is let in where only those signed in are.
-- Times are whole microseconds since 1970, UTC.
CREATE TABLE domains (
    -- an A-label in lower case
    name TEXT PRIMARY KEY,
    app TEXT NOT NULL,
    -- where its certificate comes from: nowhere, a file that somebody gave, or an authority (ACME)
    source TEXT NOT NULL DEFAULT 'none' CHECK (source IN ('none', 'file', 'acme')),
    actor TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX domains_app ON domains (app);

-- The newest certificate of each name.
CREATE TABLE certificates (
    name TEXT PRIMARY KEY,
    -- PEM: the certificate and what links it to its authority
    chain TEXT NOT NULL,
    -- its private key, sealed, and what the seal is bound to
    key TEXT NOT NULL,
    identity TEXT NOT NULL,
    -- SHA-256 of the certificate, in hex
    fingerprint TEXT NOT NULL,
    begins_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL,
    -- when the proxy was last seen to serve this very one
    served_at INTEGER
) STRICT;

-- Orders to the authority: when each name was last tried, and why it failed.
CREATE TABLE certificate_orders (
    name TEXT PRIMARY KEY,
    tries INTEGER NOT NULL DEFAULT 0,
    tried_at INTEGER NOT NULL,
    reason TEXT NOT NULL DEFAULT ''
) STRICT;

-- This hub's account with an authority; its key is sealed.
CREATE TABLE acme_accounts (
    directory TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    identity TEXT NOT NULL,
    uri TEXT NOT NULL DEFAULT ''
) STRICT;

-- What the authority will ask for, and the answer.
CREATE TABLE acme_answers (
    token TEXT PRIMARY KEY,
    answer TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- The gate of each app that ever had one. Each change has a new version, which ends every token of the one before.
CREATE TABLE gates (
    app TEXT PRIMARY KEY,
    shut INTEGER NOT NULL,
    -- JSON list of accounts' names; empty is everyone who is signed in
    allowed TEXT NOT NULL DEFAULT '[]',
    version INTEGER NOT NULL DEFAULT 1
) STRICT;

-- Who was let in: a token is good while its session is.
CREATE TABLE gate_tokens (
    id TEXT PRIMARY KEY,
    app TEXT NOT NULL,
    account INTEGER NOT NULL,
    session INTEGER NOT NULL,
    ends_at INTEGER NOT NULL
) STRICT;

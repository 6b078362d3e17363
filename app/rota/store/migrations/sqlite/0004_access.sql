-- tolerates: 1
-- Accounts, browsers' sessions and API tokens. A password is kept as its argon2id hash; of a
-- cookie's value and of a token there is the SHA-256 alone. Times are whole microseconds since 1970, UTC.
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    password TEXT NOT NULL,
    -- names, sorted, with spaces between
    scopes TEXT NOT NULL,
    disabled INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account INTEGER NOT NULL REFERENCES accounts (id),
    digest BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_account ON sessions (account);

CREATE TABLE api_tokens (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account INTEGER NOT NULL REFERENCES accounts (id),
    name TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- never, where there is none
    expires_at INTEGER,
    used_at INTEGER,
    revoked_at INTEGER
) STRICT;
-- The name of a token that is revoked is free again.
CREATE UNIQUE INDEX api_tokens_names ON api_tokens (account, name) WHERE revoked_at IS NULL;

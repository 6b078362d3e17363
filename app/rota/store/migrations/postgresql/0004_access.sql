-- tolerates: 1
-- Accounts, browsers' sessions and API tokens. A password is kept as its argon2id hash; of a
-- cookie's value and of a token there is the SHA-256 alone.
CREATE TABLE accounts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    password text NOT NULL,
    -- names, sorted, with spaces between
    scopes text NOT NULL,
    disabled boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE sessions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account bigint NOT NULL REFERENCES accounts (id),
    digest bytea NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX sessions_account ON sessions (account);

CREATE TABLE api_tokens (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account bigint NOT NULL REFERENCES accounts (id),
    name text NOT NULL,
    digest bytea NOT NULL UNIQUE,
    scopes text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- never, where there is none
    expires_at timestamptz,
    used_at timestamptz,
    revoked_at timestamptz
);
-- The name of a token that is revoked is free again.
CREATE UNIQUE INDEX api_tokens_names ON api_tokens (account, name) WHERE revoked_at IS NULL;

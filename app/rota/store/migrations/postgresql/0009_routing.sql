-- tolerates: 1
-- Routing: the names of apps, their certificates, and who is let in where only those signed in are.
CREATE TABLE domains (
    -- an A-label in lower case
    name text PRIMARY KEY,
    app text NOT NULL,
    -- where its certificate comes from: nowhere, a file that somebody gave, or an authority (ACME)
    source text NOT NULL DEFAULT 'none' CHECK (source IN ('none', 'file', 'acme')),
    actor text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX domains_app ON domains (app);

-- The newest certificate of each name.
CREATE TABLE certificates (
    name text PRIMARY KEY,
    -- PEM: the certificate and what links it to its authority
    chain text NOT NULL,
    -- its private key, sealed, and what the seal is bound to
    key text NOT NULL,
    identity text NOT NULL,
    -- SHA-256 of the certificate, in hex
    fingerprint text NOT NULL,
    begins_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL,
    -- when the proxy was last seen to serve this very one
    served_at timestamptz
);

-- Orders to the authority: when each name was last tried, and why it failed.
CREATE TABLE certificate_orders (
    name text PRIMARY KEY,
    tries integer NOT NULL DEFAULT 0,
    tried_at timestamptz NOT NULL DEFAULT now(),
    reason text NOT NULL DEFAULT ''
);

-- This hub's account with an authority; its key is sealed.
CREATE TABLE acme_accounts (
    directory text PRIMARY KEY,
    key text NOT NULL,
    identity text NOT NULL,
    uri text NOT NULL DEFAULT ''
);

-- What the authority will ask for, and the answer.
CREATE TABLE acme_answers (
    token text PRIMARY KEY,
    answer text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- The gate of each app that ever had one. Each change has a new version, which ends every token of the one before.
CREATE TABLE gates (
    app text PRIMARY KEY,
    shut boolean NOT NULL,
    -- JSON list of accounts' names; empty is everyone who is signed in
    allowed text NOT NULL DEFAULT '[]',
    version bigint NOT NULL DEFAULT 1
);

-- Who was let in: a token is good while its session is.
CREATE TABLE gate_tokens (
    id text PRIMARY KEY,
    app text NOT NULL,
    account bigint NOT NULL,
    session bigint NOT NULL,
    ends_at timestamptz NOT NULL
);

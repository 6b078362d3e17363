-- tolerates: 1
-- Webhooks: who is told of which acts, what each was told, and how far the log was read for it.
CREATE TABLE webhooks (
    id text PRIMARY KEY,
    url text NOT NULL,
    -- JSON list of kinds of acts, and of prefixes such as backup.*
    kinds text NOT NULL,
    -- the app whose acts alone are told; empty: those of the whole platform
    app text NOT NULL,
    -- sealed with the hub's webhooks key
    secret text NOT NULL,
    active boolean NOT NULL DEFAULT true,
    -- only entries of the log after this one are told
    since bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- which may be gone by now
    webhook text NOT NULL,
    -- the act's index in the log, its id, and its kind
    entry bigint NOT NULL,
    act text NOT NULL,
    kind text NOT NULL,
    -- made once: each try sends the same bytes
    body text NOT NULL,
    -- new: hooks.worker tries it; queued: only its job tries it; delivered
    state text NOT NULL DEFAULT 'new' CHECK (state IN ('new', 'queued', 'delivered')),
    tries integer NOT NULL DEFAULT 0,
    job bigint,
    -- what the last try gave: the answer's status, or a reason, or both
    status integer,
    reason text,
    created_at timestamptz NOT NULL DEFAULT now(),
    tried_at timestamptz,
    UNIQUE (webhook, act)
);
CREATE INDEX deliveries_new ON deliveries (id) WHERE state = 'new';

CREATE TABLE webhooks_cursor (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- where in the records of the log the next entry begins, and the root there in hex
    position text NOT NULL,
    root text NOT NULL
);

-- When an operator was last told of something by mail.
CREATE TABLE notices (
    subject text PRIMARY KEY,
    told_at timestamptz NOT NULL DEFAULT now()
);

-- tolerates: 1
-- Webhooks: who is told of which acts, what each was told, and how far the log was read for it.
-- Times are whole microseconds since 1970, UTC.
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    -- JSON list of kinds of acts, and of prefixes such as backup.*
    kinds TEXT NOT NULL,
    -- the app whose acts alone are told; empty: those of the whole platform
    app TEXT NOT NULL,
    -- sealed with the hub's webhooks key
    secret TEXT NOT NULL,
    active INTEGER NOT NULL DEFAULT 1,
    -- only entries of the log after this one are told
    since INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- which may be gone by now
    webhook TEXT NOT NULL,
    -- the act's index in the log, its id, and its kind
    entry INTEGER NOT NULL,
    act TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- made once: each try sends the same bytes
    body TEXT NOT NULL,
    -- new: hooks.worker tries it; queued: only its job tries it; delivered
    state TEXT NOT NULL DEFAULT 'new' CHECK (state IN ('new', 'queued', 'delivered')),
    tries INTEGER NOT NULL DEFAULT 0,
    job INTEGER,
    -- what the last try gave: the answer's status, or a reason, or both
    status INTEGER,
    reason TEXT,
    created_at INTEGER NOT NULL,
    tried_at INTEGER,
    UNIQUE (webhook, act)
) STRICT;
CREATE INDEX deliveries_new ON deliveries (id) WHERE state = 'new';

CREATE TABLE webhooks_cursor (
    one INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    -- where in the records of the log the next entry begins, and the root there in hex
    position TEXT NOT NULL,
    root TEXT NOT NULL
) STRICT;

-- When an operator was last told of something by mail.
CREATE TABLE notices (
    subject TEXT PRIMARY KEY,
    told_at INTEGER NOT NULL
) STRICT;

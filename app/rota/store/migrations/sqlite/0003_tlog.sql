-- tolerates: 1
-- The transparency log: the tree signed last, and workers' acts on their way into it.
-- Times are whole microseconds since 1970, UTC.
CREATE TABLE tlog_signed (
    origin TEXT PRIMARY KEY,
    generation INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    size INTEGER NOT NULL,
    -- hex
    root TEXT NOT NULL,
    -- where the records end at this size
    position TEXT NOT NULL,
    note TEXT NOT NULL,
    signed_at INTEGER NOT NULL
) STRICT;

CREATE TABLE tlog_outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    entry BLOB NOT NULL,
    put_out_at INTEGER NOT NULL,
    -- where the records ended before anyone tried to append it
    since TEXT,
    -- its index in the log, once it is there
    position INTEGER
) STRICT;
CREATE INDEX tlog_outbox_waiting ON tlog_outbox (id) WHERE position IS NULL;

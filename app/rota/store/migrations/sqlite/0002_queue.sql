-- tolerates: 1
-- The work queue. Times are whole microseconds since 1970, UTC.
CREATE TABLE work_queue (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    -- strict JSON, checked by the program
    payload TEXT NOT NULL,
    -- while one job of a kind has a key, no second one is enqueued with it
    dedupe_key TEXT,
    -- whether the key is kept while the job runs, or given up when it is claimed
    keeps_key INTEGER NOT NULL,
    -- the schema number of the program that enqueued it: an older one leaves it alone
    program_schema INTEGER NOT NULL,
    run_after INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    claimed_by TEXT,
    claimed_until INTEGER,
    -- kept for a person; run_after is then when it died
    dead INTEGER NOT NULL DEFAULT 0,
    enqueued_at INTEGER NOT NULL
) STRICT;
CREATE INDEX work_queue_due ON work_queue (run_after, id) WHERE NOT dead;
CREATE INDEX work_queue_dead ON work_queue (kind, id) WHERE dead;
CREATE UNIQUE INDEX work_queue_keys ON work_queue (kind, dedupe_key) WHERE dedupe_key IS NOT NULL;

-- tolerates: 1
-- The hub itself, who leads what, what ran, and the backups made.
-- Times are whole microseconds since 1970, UTC.
CREATE TABLE hub (
    one INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    -- raised at each restore from backup; outranks every epoch
    generation INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL
) STRICT;
INSERT INTO hub (created_at) VALUES (now_us());

CREATE TABLE leaders (
    task TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    holder TEXT NOT NULL,
    since INTEGER NOT NULL
) STRICT;

CREATE TABLE task_history (
    id INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    finished_at INTEGER,
    outcome TEXT
) STRICT;
CREATE INDEX task_history_by_task ON task_history (task, started_at);

CREATE TABLE backups (
    name TEXT PRIMARY KEY,
    cause TEXT NOT NULL CHECK (cause IN ('schedule', 'operator')),
    state TEXT NOT NULL CHECK (state IN ('running', 'complete', 'failed', 'removed')),
    started_at INTEGER NOT NULL,
    finished_at INTEGER,
    size INTEGER,
    digest TEXT,
    error TEXT
) STRICT;
CREATE INDEX backups_by_start ON backups (started_at);

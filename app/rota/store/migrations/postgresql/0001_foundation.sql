-- tolerates: 1
-- The hub itself, who leads what, what ran, and the backups made.
CREATE TABLE hub (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- raised at each restore from backup; outranks every epoch
    generation bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO hub DEFAULT VALUES;

CREATE TABLE leaders (
    task text PRIMARY KEY,
    epoch bigint NOT NULL,
    holder text NOT NULL,
    since timestamptz NOT NULL
);

CREATE TABLE task_history (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    outcome text
);
CREATE INDEX task_history_by_task ON task_history (task, started_at);

CREATE TABLE backups (
    name text PRIMARY KEY,
    cause text NOT NULL CHECK (cause IN ('schedule', 'operator')),
    state text NOT NULL CHECK (state IN ('running', 'complete', 'failed', 'removed')),
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    size bigint,
    digest text,
    error text
);
CREATE INDEX backups_by_start ON backups (started_at);

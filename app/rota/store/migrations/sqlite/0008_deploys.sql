-- tolerates: 1
-- Deploys: what each app should run, where it was placed and why, and how it gets there.
-- Times are whole microseconds since 1970, UTC.
CREATE TABLE scales (
    app TEXT NOT NULL,
    process_type TEXT NOT NULL,
    count INTEGER NOT NULL CHECK (count >= 0),
    -- JSON lists of servers' names
    use TEXT NOT NULL DEFAULT '[]',
    avoid TEXT NOT NULL DEFAULT '[]',
    version INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (app, process_type)
) STRICT;

-- One row for each copy of an instance: an old and a new release's may stand side by side during a deploy.
CREATE TABLE instances (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- shop.web.1
    name TEXT NOT NULL,
    app TEXT NOT NULL,
    process_type TEXT NOT NULL,
    release INTEGER NOT NULL,
    server TEXT NOT NULL,
    port INTEGER NOT NULL,
    -- placed: decided; started: told to run; routed: the proxy sends to it; standby: it does where no routed
    -- one answers; stopping; stopped
    state TEXT NOT NULL CHECK (state IN ('placed', 'started', 'routed', 'standby', 'stopping', 'stopped')),
    -- why it is there, as JSON (rota.placement)
    reasons TEXT NOT NULL DEFAULT '{}',
    deploy INTEGER,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX instances_live ON instances (name, release, server) WHERE state <> 'stopped';
CREATE UNIQUE INDEX instances_port ON instances (server, port) WHERE state <> 'stopped';

CREATE TABLE deploys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    app TEXT NOT NULL,
    -- deploy, config, rollback, scale, pin
    cause TEXT NOT NULL,
    -- null until it is made
    release INTEGER,
    before INTEGER,
    build INTEGER,
    state TEXT NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'failed', 'cancelled')),
    cancelling INTEGER NOT NULL DEFAULT 0,
    actor TEXT NOT NULL,
    -- what was asked, and the plan as it was shown, as JSON
    asked TEXT NOT NULL DEFAULT '{}',
    plan TEXT NOT NULL DEFAULT '{}',
    reason TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
CREATE UNIQUE INDEX deploys_one ON deploys (app) WHERE state = 'running';

CREATE TABLE deploy_steps (
    deploy INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    -- what it works on, as JSON
    work TEXT NOT NULL DEFAULT '{}',
    state TEXT NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'running', 'done', 'failed', 'skipped')),
    reason TEXT NOT NULL DEFAULT '',
    started_at INTEGER,
    ended_at INTEGER,
    PRIMARY KEY (deploy, number)
) STRICT;

-- One-shot executions: build hooks, release hooks, later scheduled runs and `rota run`.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    app TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('build', 'release', 'once')),
    release INTEGER,
    command TEXT NOT NULL,
    server TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'running', 'done', 'failed', 'lost', 'cancelled')),
    exit_code INTEGER,
    reason TEXT NOT NULL DEFAULT '',
    deploy INTEGER,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER
) STRICT;

-- Why something waits, as the newest placement pass saw it.
CREATE TABLE waiting (
    subject TEXT PRIMARY KEY,
    reason TEXT NOT NULL,
    since INTEGER NOT NULL
) STRICT;

-- What the proxy should do with each app, by a number that grows, and the number that it was seen to have done.
CREATE TABLE app_routes (
    app TEXT PRIMARY KEY,
    wanted INTEGER NOT NULL DEFAULT 1,
    confirmed INTEGER NOT NULL DEFAULT 0,
    -- why the proxy could not be brought to it
    reason TEXT NOT NULL DEFAULT ''
) STRICT;

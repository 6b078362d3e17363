-- tolerates: 1
-- Deploys: what each app should run, where it was placed and why, and how it gets there.
CREATE TABLE scales (
    app text NOT NULL,
    process_type text NOT NULL,
    count integer NOT NULL CHECK (count >= 0),
    -- JSON lists of servers' names
    use text NOT NULL DEFAULT '[]',
    avoid text NOT NULL DEFAULT '[]',
    version bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (app, process_type)
);

-- One row for each copy of an instance: an old and a new release's may stand side by side during a deploy.
CREATE TABLE instances (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- shop.web.1
    name text NOT NULL,
    app text NOT NULL,
    process_type text NOT NULL,
    release bigint NOT NULL,
    server text NOT NULL,
    port integer NOT NULL,
    -- placed: decided; started: told to run; routed: the proxy sends to it; standby: it does where no routed
    -- one answers; stopping; stopped
    state text NOT NULL CHECK (state IN ('placed', 'started', 'routed', 'standby', 'stopping', 'stopped')),
    -- why it is there, as JSON (rota.placement)
    reasons text NOT NULL DEFAULT '{}',
    deploy bigint,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX instances_live ON instances (name, release, server) WHERE state <> 'stopped';
CREATE UNIQUE INDEX instances_port ON instances (server, port) WHERE state <> 'stopped';

CREATE TABLE deploys (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app text NOT NULL,
    -- deploy, config, rollback, scale, pin
    cause text NOT NULL,
    -- null until it is made
    release bigint,
    before bigint,
    build bigint,
    state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'failed', 'cancelled')),
    cancelling boolean NOT NULL DEFAULT false,
    actor text NOT NULL,
    -- what was asked, and the plan as it was shown, as JSON
    asked text NOT NULL DEFAULT '{}',
    plan text NOT NULL DEFAULT '{}',
    reason text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz
);
CREATE UNIQUE INDEX deploys_one ON deploys (app) WHERE state = 'running';

CREATE TABLE deploy_steps (
    deploy bigint NOT NULL,
    number integer NOT NULL,
    kind text NOT NULL,
    -- what it works on, as JSON
    work text NOT NULL DEFAULT '{}',
    state text NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'running', 'done', 'failed', 'skipped')),
    reason text NOT NULL DEFAULT '',
    started_at timestamptz,
    ended_at timestamptz,
    PRIMARY KEY (deploy, number)
);

-- One-shot executions: build hooks, release hooks, later scheduled runs and `rota run`.
CREATE TABLE runs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('build', 'release', 'once')),
    release bigint,
    command text NOT NULL,
    server text NOT NULL,
    state text NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'running', 'done', 'failed', 'lost', 'cancelled')),
    exit_code integer,
    reason text NOT NULL DEFAULT '',
    deploy bigint,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz
);

-- Why something waits, as the newest placement pass saw it.
CREATE TABLE waiting (
    subject text PRIMARY KEY,
    reason text NOT NULL,
    since timestamptz NOT NULL DEFAULT now()
);

-- What the proxy should do with each app, by a number that grows, and the number that it was seen to have done.
CREATE TABLE app_routes (
    app text PRIMARY KEY,
    wanted bigint NOT NULL DEFAULT 1,
    confirmed bigint NOT NULL DEFAULT 0,
    -- why the proxy could not be brought to it
    reason text NOT NULL DEFAULT ''
);

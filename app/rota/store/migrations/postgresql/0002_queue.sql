-- tolerates: 1
-- The work queue. A claim changes no indexed column unless the job has a key,
-- so that it costs no index entry. There is no trigger: whoever enqueues nudges.
CREATE TABLE work_queue (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    -- strict JSON, checked by the program: text keeps every number as it was written
    payload text NOT NULL,
    -- while one job of a kind has a key, no second one is enqueued with it
    dedupe_key text,
    -- whether the key is kept while the job runs, or given up when it is claimed
    keeps_key boolean NOT NULL,
    -- the schema number of the program that enqueued it: an older one leaves it alone
    program_schema integer NOT NULL,
    run_after timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    last_error text,
    claimed_by text,
    claimed_until timestamptz,
    -- kept for a person; run_after is then when it died
    dead boolean NOT NULL DEFAULT false,
    enqueued_at timestamptz NOT NULL DEFAULT now()
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 10000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000
);
CREATE INDEX work_queue_due ON work_queue (run_after, id) WHERE NOT dead;
CREATE INDEX work_queue_dead ON work_queue (kind, id) WHERE dead;
CREATE UNIQUE INDEX work_queue_keys ON work_queue (kind, dedupe_key) WHERE dedupe_key IS NOT NULL;

-- tolerates: 1
-- The transparency log: the tree signed last, and workers' acts on their way into it.
CREATE TABLE tlog_signed (
    origin text PRIMARY KEY,
    generation bigint NOT NULL,
    epoch bigint NOT NULL,
    size bigint NOT NULL,
    -- hex
    root text NOT NULL,
    -- where the records end at this size
    position text NOT NULL,
    note text NOT NULL,
    signed_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE tlog_outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    entry bytea NOT NULL,
    put_out_at timestamptz NOT NULL DEFAULT now(),
    -- where the records ended before anyone tried to append it
    since text,
    -- its index in the log, once it is there
    position bigint
);
CREATE INDEX tlog_outbox_waiting ON tlog_outbox (id) WHERE position IS NULL;

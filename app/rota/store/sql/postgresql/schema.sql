-- name: exists
SELECT to_regclass('schema_migrations') IS NOT NULL AS found

-- name: create
CREATE TABLE schema_migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    tolerates integer NOT NULL,
    digest text NOT NULL,
    applied_by text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)

-- name: applied
SELECT number, name, tolerates, digest FROM schema_migrations ORDER BY number

-- name: record
INSERT INTO schema_migrations (number, name, tolerates, digest, applied_by)
VALUES (%(number)s, %(name)s, %(tolerates)s, %(digest)s, %(applied_by)s)

-- name: pulse
SELECT current_setting('server_version') AS server, max(number) AS schema, max(tolerates) AS tolerates
FROM schema_migrations

-- name: check
-- Indexes that an interrupted build left unusable.
SELECT string_agg('index ' || c.relname || ' is invalid', '; ') AS problems
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace

-- name: exists
SELECT count(*) AS found FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'

-- name: create
CREATE TABLE schema_migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    tolerates INTEGER NOT NULL,
    digest TEXT NOT NULL,
    applied_by TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT

-- name: applied
SELECT number, name, tolerates, digest FROM schema_migrations ORDER BY number

-- name: record
INSERT INTO schema_migrations (number, name, tolerates, digest, applied_by, applied_at)
VALUES (:number, :name, :tolerates, :digest, :applied_by, now_us())

-- name: pulse
SELECT sqlite_version() AS server, max(number) AS schema, max(tolerates) AS tolerates
FROM schema_migrations

-- name: check
SELECT group_concat(quick_check, '; ') AS problems FROM pragma_quick_check WHERE quick_check <> 'ok'

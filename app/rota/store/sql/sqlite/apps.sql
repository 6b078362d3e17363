-- name: all
SELECT name, release, version, gated, created_at FROM apps ORDER BY name

-- name: find
SELECT name, release, version, gated, created_at FROM apps WHERE name = :name

-- name: hold
SELECT name, release, version, gated, created_at FROM apps WHERE name = :name

-- name: add
INSERT INTO apps (name, created_at) VALUES (:name, now_us()) ON CONFLICT (name) DO NOTHING

-- name: move
UPDATE apps SET release = :release, version = version + 1 WHERE name = :name AND version = :version

-- name: gate
UPDATE apps SET gated = :gated WHERE name = :name

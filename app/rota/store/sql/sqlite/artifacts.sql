-- name: all
SELECT hash, sha256, size, kind, created_at, used_at FROM artifacts ORDER BY artifacts.used_at, hash

-- name: find
SELECT hash, sha256, size, kind, created_at, used_at FROM artifacts WHERE hash = :hash

-- name: add
INSERT INTO artifacts (hash, sha256, size, kind, created_at, used_at) VALUES (:hash, :sha, :size, :kind, now_us(), now_us())
ON CONFLICT (hash) DO UPDATE SET used_at = now_us()

-- name: use
UPDATE artifacts SET used_at = now_us() WHERE hash = :hash

-- name: remove
DELETE FROM artifacts WHERE hash = :hash AND used_at <= now_us() - :idle * 1000000

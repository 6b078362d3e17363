-- name: tell
INSERT INTO notices (subject, told_at) VALUES (:subject, now_us())
ON CONFLICT (subject) DO UPDATE SET told_at = now_us()
WHERE told_at < now_us() - CAST(:rest * 1000000 AS INTEGER)

-- name: prune
DELETE FROM notices WHERE told_at < now_us() - :days * 86400000000

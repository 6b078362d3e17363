-- name: tell
INSERT INTO notices AS last (subject) VALUES (%(subject)s)
ON CONFLICT (subject) DO UPDATE SET told_at = now()
WHERE last.told_at < now() - make_interval(secs => %(rest)s::double precision)

-- name: prune
DELETE FROM notices WHERE told_at < now() - make_interval(days => %(days)s::int)

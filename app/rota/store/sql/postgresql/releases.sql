-- name: find
SELECT app, number, artifact, configuration, statement, act, build, cause, actor, served,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM releases WHERE app = %(app)s AND number = %(number)s

-- name: of
SELECT app, number, artifact, configuration, statement, act, build, cause, actor, served,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM releases WHERE app = %(app)s ORDER BY number DESC LIMIT %(limit)s

-- name: next
SELECT coalesce(max(number), 0) + 1 AS number FROM releases WHERE app = %(app)s

-- name: previous
SELECT app, number, artifact, configuration, statement, act, build, cause, actor, served,
    (extract(epoch FROM created_at) * 1000000)::bigint AS created_at
FROM releases AS found
WHERE app = %(app)s AND number < %(before)s AND served AND NOT EXISTS (
    SELECT 1 FROM releases AS now
    WHERE now.app = %(app)s AND now.number = %(before)s
        AND now.artifact = found.artifact AND now.configuration = found.configuration
)
ORDER BY number DESC LIMIT 1

-- name: add
INSERT INTO releases (app, number, artifact, configuration, statement, act, build, cause, actor)
VALUES (%(app)s, %(number)s, %(artifact)s, %(configuration)s, %(text)s, %(act)s, %(build)s, %(cause)s, %(actor)s)

-- name: mark_served
UPDATE releases SET served = true WHERE app = %(app)s AND number = %(number)s

-- name: remove
DELETE FROM releases WHERE app = %(app)s AND number = %(number)s

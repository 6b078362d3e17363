-- name: find
SELECT app, number, artifact, configuration, statement, act, build, cause, actor, served, created_at
FROM releases WHERE app = :app AND number = :number

-- name: of
SELECT app, number, artifact, configuration, statement, act, build, cause, actor, served, created_at
FROM releases WHERE app = :app ORDER BY number DESC LIMIT :limit

-- name: next
SELECT coalesce(max(number), 0) + 1 AS number FROM releases WHERE app = :app

-- name: previous
SELECT app, number, artifact, configuration, statement, act, build, cause, actor, served, created_at
FROM releases AS found
WHERE app = :app AND number < :before AND served AND NOT EXISTS (
    SELECT 1 FROM releases AS now
    WHERE now.app = :app AND now.number = :before
        AND now.artifact = found.artifact AND now.configuration = found.configuration
)
ORDER BY number DESC LIMIT 1

-- name: add
INSERT INTO releases (app, number, artifact, configuration, statement, act, build, cause, actor, created_at)
VALUES (:app, :number, :artifact, :configuration, :text, :act, :build, :cause, :actor, now_us())

-- name: mark_served
UPDATE releases SET served = 1 WHERE app = :app AND number = :number

-- name: remove
DELETE FROM releases WHERE app = :app AND number = :number

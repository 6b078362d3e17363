-- name: signed
SELECT origin, generation, epoch, size, root, position, note FROM tlog_signed WHERE origin = :origin

-- name: ground
SELECT (SELECT generation FROM hub) AS generation,
       (SELECT size FROM tlog_signed WHERE origin = :origin) AS size

-- name: sign
-- Never back, and never another tree of one size.
INSERT INTO tlog_signed (origin, generation, epoch, size, root, position, note, signed_at)
VALUES (:origin, :generation, :epoch, :size, :root, :position, :note, now_us())
ON CONFLICT (origin) DO UPDATE
SET generation = excluded.generation, epoch = excluded.epoch, size = excluded.size, root = excluded.root,
    position = excluded.position, note = excluded.note, signed_at = now_us()
WHERE size < excluded.size OR (size = excluded.size AND root = excluded.root)

-- name: put_out
INSERT INTO tlog_outbox (entry, put_out_at) VALUES (:entry, now_us()) RETURNING id

-- name: waiting
SELECT id, entry, since FROM tlog_outbox WHERE position IS NULL ORDER BY id LIMIT :limit

-- name: begin
UPDATE tlog_outbox SET since = :since WHERE id = :id AND since IS NULL

-- name: index
UPDATE tlog_outbox SET position = :position WHERE id = :id AND position IS NULL

-- name: index_of
SELECT position FROM tlog_outbox WHERE id = :id

-- name: prune
DELETE FROM tlog_outbox WHERE position IS NOT NULL AND put_out_at < now_us() - :days * 86400000000

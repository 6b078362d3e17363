-- name: signed
SELECT origin, generation, epoch, size, root, position, note FROM tlog_signed WHERE origin = %(origin)s

-- name: ground
SELECT (SELECT generation FROM hub) AS generation,
       (SELECT size FROM tlog_signed WHERE origin = %(origin)s) AS size

-- name: sign
-- Never back, and never another tree of one size.
INSERT INTO tlog_signed AS last (origin, generation, epoch, size, root, position, note)
VALUES (%(origin)s, %(generation)s, %(epoch)s, %(size)s, %(root)s, %(position)s, %(note)s)
ON CONFLICT (origin) DO UPDATE
SET generation = excluded.generation, epoch = excluded.epoch, size = excluded.size, root = excluded.root,
    position = excluded.position, note = excluded.note, signed_at = now()
WHERE last.size < excluded.size OR (last.size = excluded.size AND last.root = excluded.root)

-- name: put_out
INSERT INTO tlog_outbox (entry) VALUES (%(entry)s) RETURNING id

-- name: waiting
SELECT id, entry, since FROM tlog_outbox WHERE position IS NULL ORDER BY id LIMIT %(limit)s

-- name: begin
UPDATE tlog_outbox SET since = %(since)s WHERE id = %(id)s AND since IS NULL

-- name: index
UPDATE tlog_outbox SET position = %(position)s WHERE id = %(id)s AND position IS NULL

-- name: index_of
SELECT position FROM tlog_outbox WHERE id = %(id)s

-- name: prune
DELETE FROM tlog_outbox WHERE position IS NOT NULL AND put_out_at < now() - make_interval(days => %(days)s::int)

-- name: of
SELECT process_type, count, use, avoid, version FROM scales WHERE app = %(app)s ORDER BY process_type

-- name: add
INSERT INTO scales (app, process_type, count) VALUES (%(app)s, %(process_type)s, %(count)s)
ON CONFLICT (app, process_type) DO NOTHING

-- name: change
UPDATE scales SET count = %(count)s, use = %(use)s, avoid = %(avoid)s, version = version + 1
WHERE app = %(app)s AND process_type = %(process_type)s AND version = %(version)s

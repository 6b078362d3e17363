-- name: of
SELECT process_type, count, use, avoid, version FROM scales WHERE app = :app ORDER BY process_type

-- name: add
INSERT INTO scales (app, process_type, count) VALUES (:app, :process_type, :count)
ON CONFLICT (app, process_type) DO NOTHING

-- name: change
UPDATE scales SET count = :count, use = :use, avoid = :avoid, version = version + 1
WHERE app = :app AND process_type = :process_type AND version = :version

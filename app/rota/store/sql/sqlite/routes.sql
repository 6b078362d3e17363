-- name: want
INSERT INTO app_routes AS known (app) VALUES (:app)
ON CONFLICT (app) DO UPDATE SET wanted = known.wanted + 1

-- name: of
SELECT app, wanted, confirmed, reason FROM app_routes WHERE app = :app

-- name: all
SELECT app, wanted, confirmed, reason FROM app_routes ORDER BY app

-- name: confirm
UPDATE app_routes SET confirmed = :number, reason = '' WHERE app = :app AND confirmed < :number

-- name: complain
UPDATE app_routes SET reason = :reason WHERE app = :app AND reason <> :reason

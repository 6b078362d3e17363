-- name: want
INSERT INTO app_routes AS known (app) VALUES (%(app)s)
ON CONFLICT (app) DO UPDATE SET wanted = known.wanted + 1

-- name: of
SELECT app, wanted, confirmed, reason FROM app_routes WHERE app = %(app)s

-- name: all
SELECT app, wanted, confirmed, reason FROM app_routes ORDER BY app

-- name: confirm
UPDATE app_routes SET confirmed = %(number)s, reason = '' WHERE app = %(app)s AND confirmed < %(number)s

-- name: complain
UPDATE app_routes SET reason = %(reason)s WHERE app = %(app)s AND reason <> %(reason)s

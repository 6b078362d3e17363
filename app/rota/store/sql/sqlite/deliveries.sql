-- name: add
INSERT INTO deliveries (webhook, entry, act, kind, body, created_at)
VALUES (:webhook, :entry, :act, :kind, :body, now_us()) ON CONFLICT (webhook, act) DO NOTHING

-- name: waiting
-- The first few of each webhook, the first of each before the second of any: those of many slow ones,
-- which stay here while they are under way, leave room for the others.
SELECT delivery.id, delivery.webhook, delivery.act, delivery.body, delivery.state, delivery.tries, delivery.job,
       webhooks.url, webhooks.secret, webhooks.active
FROM (
    SELECT id, webhook, act, body, state, tries, job, row_number() OVER (PARTITION BY webhook ORDER BY id) AS place
    FROM deliveries WHERE state = 'new'
) AS delivery
JOIN webhooks ON webhooks.id = delivery.webhook
WHERE webhooks.active AND place <= :each
ORDER BY place, delivery.id LIMIT :limit

-- name: one
SELECT delivery.id, delivery.webhook, delivery.act, delivery.body, delivery.state, delivery.tries, delivery.job,
       webhooks.url, webhooks.secret, webhooks.active
FROM deliveries AS delivery JOIN webhooks ON webhooks.id = delivery.webhook
WHERE delivery.id = :id

-- name: settle
-- Only from the state and try that was read: whoever comes late changes nothing.
UPDATE deliveries
SET state = :state, tries = tries + 1, status = :status, reason = :reason, tried_at = now_us()
WHERE id = :id AND state = :before AND tries = :tries

-- name: give
UPDATE deliveries SET job = :job WHERE id = :id

-- name: renew
UPDATE deliveries SET state = 'new', job = NULL WHERE id = :id AND state = :before AND tries = :tries

-- name: list
-- Where it stands with the one that its job gives it: the job's end is the delivery's.
SELECT id, webhook, entry, act, kind, tries, job, status, reason, created_at, tried_at, next_at, standing FROM (
    SELECT delivery.id, delivery.webhook, delivery.entry, delivery.act, delivery.kind, delivery.tries, delivery.job,
           delivery.status, coalesce(delivery.reason, '') AS reason, delivery.created_at, delivery.tried_at,
           CASE WHEN delivery.state = 'queued' AND NOT job.dead THEN job.run_after END AS next_at,
           CASE WHEN delivery.state <> 'queued' THEN delivery.state
                WHEN job.dead THEN 'dead' WHEN job.id IS NULL THEN 'dropped' ELSE 'queued' END AS standing
    FROM deliveries AS delivery
    JOIN webhooks ON webhooks.id = delivery.webhook LEFT JOIN work_queue AS job ON job.id = delivery.job
) AS shown
WHERE coalesce(webhook = :webhook, true) AND coalesce(id = :id, true) AND coalesce(act = :act, true)
ORDER BY id DESC LIMIT :limit

-- name: remove
DELETE FROM deliveries WHERE webhook = :webhook

-- name: counts
SELECT CASE WHEN delivery.state <> 'queued' THEN delivery.state
            WHEN job.dead THEN 'dead' WHEN job.id IS NULL THEN 'dropped' ELSE 'queued' END AS standing,
       count(*) AS deliveries
FROM deliveries AS delivery
JOIN webhooks ON webhooks.id = delivery.webhook LEFT JOIN work_queue AS job ON job.id = delivery.job
GROUP BY standing ORDER BY standing

-- name: prune
-- What is still to be tried stays.
DELETE FROM deliveries
WHERE created_at < now_us() - :days * 86400000000
    AND NOT (state = 'new' AND EXISTS (SELECT 1 FROM webhooks WHERE id = deliveries.webhook AND active))
    AND NOT (state = 'queued' AND EXISTS (SELECT 1 FROM work_queue WHERE id = deliveries.job AND NOT dead))

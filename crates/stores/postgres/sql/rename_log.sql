-- rename_log: forgets the name of a route's log if it is $2 on this line of history; the next holder
-- draws another.
-- Concurrency: with the leases locked. Index: identity_pkey.
DELETE FROM posthaste.identity
WHERE route = $1 AND log = $2

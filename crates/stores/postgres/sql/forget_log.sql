-- forget_log: forgets the name of the log of route `:route`; the next holder draws another, that no
-- consumer has heard of.
-- Concurrency: with the leases locked. Index: identity_pkey.
DELETE FROM posthaste.identity
WHERE route = :route

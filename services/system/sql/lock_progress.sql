-- lock_progress: from now on, until the transaction ends, no relay can write down what it has delivered.
-- Reading, and the lease, are not touched.
LOCK TABLE posthaste.progress IN SHARE MODE

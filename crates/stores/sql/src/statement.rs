//! Every statement that the engine runs, by what it takes and what it returns. Each is a file of the same
//! name in the `sql/` folder of every dialect; `cargo xtask tidy` compares them.
//!
//! Parameters stand behind a colon. Durations are microseconds, times microseconds since 1970.
//! "Message columns" are: seq, id, topic, key, type, headers (a JSON object), content type, time of
//! enqueueing, payload.

/// Calls a macro with every statement: its name here, the name of its file, and what it is for.
#[macro_export]
macro_rules! for_each_statement {
    ([$($callback:tt)+] $(, $prefix:tt)*) => {
        $($callback)+! {
            $($prefix;)*
            // Routes.
            /// `:route` → topics (a JSON array), shards, resizing_to, barrier.
            ReadRoute read_route,
            /// As `read_route`; the row stays locked until the transaction ends.
            LockRoute lock_route,
            /// `:route :topics :shards`. Adds a route unless there is one of that name.
            RegisterRoute register_route,
            /// `:route :topics :shards :resizing_to :barrier`. Writes a route that is locked.
            WriteRoute write_route,
            /// → topics of every route, ordered by the route's name.
            ReadTopics read_topics,
            /// `:route :indexes :epoch`. Adds free leases for these shards, where there are none.
            InsertLeases insert_leases,
            /// `:route`.
            DeleteLeases delete_leases,
            /// `:route`.
            DeleteProgress delete_progress,
            /// `:route :position :seq`. A journal entry for every shard, under its lease's epoch.
            InsertProgress insert_progress,
            /// `:route`. Keeps settlements of the route out until the transaction ends.
            LockLeases lock_leases,
            /// `:route`. Ends the leases, each with a new epoch.
            FenceLeases fence_leases,
            /// `:route`. Forgets the name of the route's log.
            ForgetLog forget_log,
            /// `:route` → shard, epoch, latest position; in the order of shards.
            ReadShards read_shards,
            /// `:end` → every topic in the log up to that seq, and the text that `waiting_scan` knows it by.
            WaitingTopics waiting_topics,
            /// `:after :end :topics :limit` → seq, key, version; by seq. Rows of these topics. The
            /// version says which transaction wrote the row, where the dialect needs it.
            WaitingScan waiting_scan,
            /// `:route :rows` (pairs of seq and bucket) `:keys` (their keys, a JSON array). Parks rows of the
            /// log; one that is parked stays as it is.
            ParkWaiting park_waiting,

            // Relays.
            /// `:relay :name :version :routes (JSON array) :paused :ttl`. Adds or renews a relay.
            Beat beat,
            /// → routes (a JSON array) of every relay that has not expired.
            BeatRoutes beat_routes,
            /// `:relay`.
            Retire retire,

            // Leases.
            /// `:route :shard` → shards of the route, whether the lease is free; no row without the route.
            AcquireLook acquire_look,
            /// `:route :shard :relay :ttl`. Takes a lease that is free or expired, with a new epoch.
            Acquire acquire,
            /// `:route :shard` → epoch.
            ReadEpoch read_epoch,
            /// `:route :shard` → latest position of the journal.
            ReadPosition read_position,
            /// `:route :shard :witness (a seq)` → the lease's epoch, highest seq handed out, epoch and n
            /// of the latest journal entry, its seq, the id at the witness's seq, lineage, snapshot.
            ReadEvidence read_evidence,
            /// `:route :shard :end :limit` → positions of the journal, the latest first; those above seq
            /// `end` may be left out.
            ReadJournal read_journal,
            /// `:route :of :index :after :limit` → key, whether it belongs to the shard, rows looked at;
            /// keys behind `after` that a parked message holds back, in order, from `limit` rows.
            BlockedKeys blocked_keys,
            /// `:route :of :index :limit` → seqs of parked messages that are retrying or dead, ascending.
            Undelivered undelivered,
            /// `:route :log`. Names the route's log, where it has no name.
            DrawLog draw_log,
            /// `:route` → the log's name, the server's timeline (empty where there is no such thing).
            ReadLog read_log,
            /// `:route :epoch`. Ends all leases of the route, with epochs above this one and their own.
            RewindLeases rewind_leases,
            /// `:route :shard :relay`. Frees the lease if this relay holds it.
            ReleaseOwn release_own,
            /// `:route :relay`. Notes that the log went back in time.
            RecordRewind record_rewind,
            /// `:route :shard :relay :epoch :ttl`. Extends the lease, and never shortens it.
            Renew renew,
            /// `:route :shard :relay :epoch`. Frees the lease.
            Release release,

            // Settling.
            /// `:route :shard :relay :epoch :position :seq`, and evidence, all NULL where there is none:
            /// `:lineage :lineage_here :reach :entry_epoch :entry_n :witness_seq :witness_id`. Adds a
            /// journal entry if the lease is held and the log is the one of the evidence. May return the
            /// horizon, and epoch and n of the entry.
            SettlePosition settle_position,
            /// `:route :shard :relay :epoch` → a row if the lease is held; it stays so until the
            /// transaction ends.
            Fence fence,
            /// `:route :seqs` → keys of these parked messages.
            SettleKeys settle_keys,
            /// For each message: `:route :seq :bucket :id :topic :key :type :headers :content_type :age
            /// :state :blocks :attempts :unknowns :class :detail :delay :payload :payload_bytes`. Parks
            /// it; one that is parked stays as it is.
            SettlePark settle_park,
            /// For each message: `:route :seq :state :blocks :attempts :unknowns :class :detail :delay`.
            SettleRepark settle_repark,
            /// `:route :seqs`. Forgets parked messages that were delivered.
            SettleDelivered settle_delivered,
            /// `:route :keys :seqs` (the messages of the keys that were changed). Messages that are not
            /// the first of their key have no attempt planned.
            HoldFollowers hold_followers,
            /// `:route :keys`. The first message of each key has an attempt planned, unless it is dead.
            PromoteHeads promote_heads,
            /// `:route :keys` → those that no parked message holds back.
            SettleUnblocked settle_unblocked,

            // Parked messages.
            /// `:route :of :index` → time until the next attempt; no row without one.
            DueNext due_next,
            /// `:route :seqs` → message columns, attempts, unknowns, redriven, age. Retrying ones.
            DueMessages due_messages,
            /// `:state :route :ids :topic :class :limit`, NULL for any → message columns, attempts,
            /// unknowns, redriven, time to the next attempt, route, state, class and detail of the first
            /// error, of the last error, created_at, parked_at and state_at as RFC 3339, acted_by,
            /// acted_why; ordered by seq and route. Dead ones come with discarded ones if `ids` is given.
            Dead dead,
            /// `:state :route :ids :topic :class :from :limit` → route, seq, key; those of `dead`, in
            /// its order, from seq `from` on, without discarded ones.
            DeadMatching dead_matching,
            /// `:route :seqs :by`. Dead letters retry, from their first attempt on.
            Redrive redrive,
            /// `:route :seqs :by :why`.
            Discard discard,

            // Retention.
            /// → route and shard of every lease.
            PurgeShards purge_shards,
            /// `:route :shard :epoch :n :retention :limit` → epoch, n, whether it is older than the
            /// retention time, its minute; in the order of the journal, from that entry on.
            PurgeProgressScan purge_progress_scan,
            /// `:route :shard :entries` (pairs of epoch and n).
            PurgeProgress purge_progress,
            /// `:retention :limit` → route, seq of messages discarded before that.
            PurgeDiscardedScan purge_discarded_scan,
            /// `:route :seqs`. Discarded ones only.
            PurgeDiscarded purge_discarded,
            /// → ids of relays that expired long ago.
            PurgeRelaysScan purge_relays_scan,
            /// `:ids`.
            PurgeRelays purge_relays,
            /// Forgets old rewinds.
            PurgeRewinds purge_rewinds,

            // Status.
            /// → name, topics (a JSON array), shards of every route, ordered by name.
            StatusRoutes status_routes,
            /// `:route` → shard, relay unless expired, epoch, seq, time until it expires.
            StatusLeases status_leases,
            /// → the seq before the first row of the log, its end, messages that are not in it yet.
            StatusLog status_log,
            /// `:after :limit` → seq (NULL for a message that is not in the log yet), topic, key, age.
            StatusOldest status_oldest,
            /// → topic, messages of it among the newest ones; the commonest first.
            StatusTopics status_topics,
            /// `:after` → the first route behind that name that has parked messages, or NULL.
            StatusOwners status_owners,
            /// `:route` → retrying and dead messages, age of the oldest retrying one.
            StatusParked status_parked,
            /// `:limit` → route, time since, relay; the latest first.
            StatusRewinds status_rewinds,
            /// → id, name, version, time since it was seen, its pauses.
            StatusRelays status_relays,

            // The inbox, on a transaction of the application's. A lane is `:consumer :log :lane :topic`.
            /// `:consumer :ids` → those that are recorded.
            InboxRecorded inbox_recorded,
            /// `:consumer :ids`. Records those that are not.
            InboxRecord inbox_record,
            /// A lane → its watermark; it stays locked until the transaction ends.
            InboxLockLane inbox_lock_lane,
            /// A lane. Adds it unless it is there.
            InboxCreateLane inbox_create_lane,
            /// A lane, `:watermark :handled :reordered :impossible`.
            InboxWriteLane inbox_write_lane,
            /// A lane, `:of :index :numbers` → number, seqs.
            InboxReadPages inbox_read_pages,
            /// For each page: a lane, `:of :index :number :seqs`. Adds or replaces it.
            InboxWritePages inbox_write_pages,
            /// A lane, `:of :index :first :last :limit` → the number of the page behind so many.
            InboxNextPage inbox_next_page,
            /// A lane, `:of :index :first :last`.
            InboxRemovePages inbox_remove_pages,
            /// `:consumer :source :log :topic`. Accepts the log, unless the consumer knows another.
            InboxAcceptLog inbox_accept_log,
            /// `:consumer :source :log :topic` → whether the consumer accepts the log.
            InboxReadLog inbox_read_log,
            /// `:consumer :id :source :seq :topic :key :type :headers :content_type :payload :attempts
            /// :class :detail`.
            InboxBury inbox_bury,
            /// `:consumer :id :attempts :class :detail`.
            InboxRebury inbox_rebury,
            /// `:consumer :id`.
            InboxUnbury inbox_unbury,

            // The inbox, for runners and tools. A filter is `:route` (the consumer) `:ids :topic :class`.
            /// A filter, `:limit` → the columns of `dead`.
            InboxLetters inbox_letters,
            /// A filter, `:by`.
            InboxRedrive inbox_redrive,
            /// A filter, `:by :why`.
            InboxDiscard inbox_discard,
            /// `:consumer :limit` → message columns, attempts, redriven, source, seq at the source.
            InboxDue inbox_due,
            /// `:consumer :window :limit`.
            InboxPurge inbox_purge,
            /// `:consumer :window :limit`.
            InboxPurgeDead inbox_purge_dead,
            /// `:consumer :source :log :by`.
            InboxAdoptLog inbox_adopt_log,
            /// `:consumer :log`.
            InboxForgetLog inbox_forget_log,
            /// `:consumer :log`.
            InboxForgetPages inbox_forget_pages,
            /// → consumer, age of its oldest id, lanes, handled, reordered, impossible, dead.
            InboxStatus inbox_status,

            // Migrations.
            /// → whether the table of migrations is there.
            FindMigration find_migration,
            /// → number of the latest migration.
            ReadMigration read_migration,
            /// `:number :name`.
            RecordMigration record_migration,
        }
    };
}

/// Statements that some databases need and others do not; a dialect has the file or has not.
macro_rules! for_each_optional_statement {
    ([$($callback:tt)+] $(, $prefix:tt)*) => {
        $($callback)+! {
            $($prefix;)*
            // Databases whose seqs are in the order of commits; PostgreSQL has its own ways.
            /// `:route` → the seq at the end of the log.
            ReadEnd read_end,
            /// `:route` → topics, the end of the log, the time.
            FetchRoute fetch_route,
            /// `:after :until :limit :small` → message columns, bytes of the payload; by seq. A payload
            /// of more than `small` bytes is NULL.
            FetchScan fetch_scan,
            /// `:seqs` → seq, payload.
            FetchPayloads fetch_payloads,
            /// `:route :of :index :limit` → seq, bytes of the payload, key: messages to try now that are
            /// the first of their key.
            DueHeads due_heads,
            /// `:route :key :head :limit` → seq, bytes of the payload: what waits behind a head, up to a
            /// dead letter that blocks the key.
            DueFollowers due_followers,
            /// → for each shard of each route the seq it had passed `:retention` ago.
            PurgeFloor purge_floor,
            /// `:after :floor :limit` → seq, topic.
            PurgeScan purge_scan,
            /// → topics of every route; no route is registered or changed until the transaction ends.
            PurgeLockRoutes purge_lock_routes,
            /// `:seqs :floor`.
            PurgeMessages purge_messages,
            /// Keeps settlements of all routes out until the transaction ends.
            LockAllLeases lock_all_leases,
            /// Ends all leases.
            AdoptLeases adopt_leases,
            /// Forgets the names of all logs.
            AdoptLogs adopt_logs,

            // MySQL, whose clusters do not share locks between nodes.
            /// `:route :shard :epoch`. Makes a settlement that another node has committed collide.
            MarkLease mark_lease,
            /// `:route`. As `mark_lease`, for every shard.
            MarkLeases mark_leases,
            /// Makes a purge that another node has begun collide.
            MarkRoutes mark_routes,

            // PostgreSQL.
            /// `:consumer :source`. One at a time decides which log is accepted.
            InboxLockLogs inbox_lock_logs,
            /// How long cleaning waits for a lock.
            PurgePatience purge_patience,
        }
    };
}

/// The files of every statement in [`Statement`], in the crate that says so: one that is missing is an error
/// of the compiler.
#[macro_export]
macro_rules! statement_files {
    () => {
        $crate::for_each_statement!([$crate::statement_files])
    };
    ($($(#[$doc:meta])* $name:ident $file:ident,)*) => {
        $crate::sql_files!($($file),*)
    };
}

macro_rules! define {
    ($enum:ident; $($(#[$doc:meta])* $name:ident $file:ident,)*) => {
        /// Statements that the engine runs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $enum {
            $($(#[$doc])* $name,)*
        }

        impl $enum {
            /// Every one of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name of its file.
            #[must_use]
            pub fn file(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($file),)*
                }
            }
        }
    };
}

for_each_statement!([define], Statement);
for_each_optional_statement!([define], Optional);

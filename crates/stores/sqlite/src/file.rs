//! Which file is at the path: a copy that is put in its place is another one, and connections that were
//! opened before still read and write the old one, which nobody else sees any more.

use std::{
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use posthaste_core::{Lineage, StoreErrorKind};
use posthaste_store_sql::Fault;
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions};

/// The path of an outbox, and the file found there.
#[derive(Clone, Debug)]
pub(crate) struct File {
    path: Arc<PathBuf>,
    /// The file last found, and since when.
    found: Arc<Mutex<Found>>,
    /// The file that connections had open at first; `None` where the pool closes those that have another
    /// one open than is at the path.
    open: Option<Arc<str>>,
}

#[derive(Debug)]
struct Found {
    identity: String,
    since: Instant,
}

impl File {
    pub(crate) fn at(options: &SqliteConnectOptions) -> Self {
        let path = options.get_filename().to_owned();
        let identity = identity(&path);
        let found = Found { identity, since: Instant::now() };
        Self { path: Arc::new(path), found: Arc::new(Mutex::new(found)), open: None }
    }

    /// Of a pool that keeps its connections, whatever happens to the file.
    pub(crate) fn of(pool: &SqlitePool) -> Self {
        let file = Self::at(&pool.connect_options());
        let open = file.look();
        Self { open: Some(open.as_str().into()), ..file }
    }

    /// Fails where the pool's connections may have another file open than everybody else.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        match &self.open {
            Some(open) if **open != *self.look() => {
                let message = format!(
                    "the file {} was replaced while this program has it open; restart the program",
                    self.path.display()
                );
                Err(Fault::new(StoreErrorKind::Unavailable, message))
            }
            _ => Ok(()),
        }
    }

    /// The file that is at the path now.
    pub(crate) fn lineage(&self) -> Lineage {
        Lineage(self.look().as_str().into())
    }

    /// Whether a connection of this age has the file open that is at the path now.
    pub(crate) fn is_open_since(&self, opened_at: Instant) -> bool {
        self.look();
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        opened_at >= found.since
    }

    fn look(&self) -> String {
        let identity = identity(&self.path);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.identity != identity {
            *found = Found { identity, since: Instant::now() };
        }
        found.identity.clone()
    }
}

/// Its device and number; empty where there is no such file, as for an outbox in memory.
fn identity(path: &PathBuf) -> String {
    let found = std::fs::metadata(path).ok();
    found.map_or_else(String::new, |file| format!("{}:{}", file.dev(), file.ino()))
}

//! The database of one test: its server, which may be killed and frozen, and the proxy in front of
//! it.
//!
//! Relays connect through the proxy; the application connects directly, so that the answers it got
//! are known.

use std::time::Duration;

use anyhow::{bail, ensure};
use posthaste_fixtures::{
    Durability, Kind, Options, PgBouncer, Postgres, Proxy, Server, fresh_database,
};
use serde::Serialize;
use tempfile::TempDir;

use crate::{address, behind, blocking, mysql};

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// PostgreSQL.
    Postgres,
    /// PostgreSQL, relays behind PgBouncer in transaction mode.
    Pgbouncer,
    /// MariaDB.
    Mariadb,
    /// A file.
    Sqlite,
}

impl Store {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Postgres, Self::Pgbouncer, Self::Mariadb, Self::Sqlite];
}

/// Connections of PgBouncer to the server: fewer than relays would use.
const POOLED: u32 = 4;

/// A database, empty.
#[derive(Debug)]
pub struct Database {
    server: Machine,
    proxy: Option<Proxy>,
    direct: String,
    through: String,
    /// Ends with it.
    _pooler: Option<PgBouncer>,
    /// Where the file is; removed with it.
    _folder: Option<TempDir>,
}

#[derive(Debug)]
enum Machine {
    Postgres(Postgres),
    MariaDb(Server),
    /// A file; there is no server.
    Sqlite,
}

impl Database {
    /// A new one on a server of its own.
    ///
    /// # Errors
    /// When there is no such server; says what to install.
    pub async fn start(store: Store) -> anyhow::Result<Self> {
        match store {
            Store::Postgres | Store::Pgbouncer => {
                let server = blocking(|| Postgres::private(Durability::Durable))?;
                let direct = fresh_database(server.url()).await?;
                let is_pooled = store == Store::Pgbouncer;
                let pooler =
                    is_pooled.then(|| PgBouncer::start(server.url(), POOLED)).transpose()?;
                let pooled = pooler.as_ref().map_or_else(|| direct.clone(), |p| p.url(&direct));
                let machine = Machine::Postgres(server);
                let proxied = Self::proxied(machine, direct, &pooled).await?;
                Ok(Self { _pooler: pooler, ..proxied })
            }
            Store::Mariadb => {
                let server = blocking(|| Server::private(Kind::MariaDb, &Options::default()))?;
                let url = server.url().to_owned();
                // Its first connections may be closed before it is quite there.
                let mut tries_left = 20;
                while let Err(error) = mysql(&url, "CREATE DATABASE IF NOT EXISTS shop").await {
                    tries_left -= 1;
                    ensure!(tries_left > 0, "{error:#}");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                let direct = format!("{url}shop");
                Self::proxied(Machine::MariaDb(server), direct.clone(), &direct).await
            }
            Store::Sqlite => {
                let folder = tempfile::tempdir()?;
                let direct = format!("sqlite:{}", folder.path().join("shop.db").display());
                Ok(Self {
                    server: Machine::Sqlite,
                    proxy: None,
                    through: direct.clone(),
                    direct,
                    _pooler: None,
                    _folder: Some(folder),
                })
            }
        }
    }

    async fn proxied(server: Machine, direct: String, target: &str) -> anyhow::Result<Self> {
        let proxy = Proxy::start(address(target)).await?;
        let through = behind(target, &proxy);
        Ok(Self { server, proxy: Some(proxy), direct, through, _pooler: None, _folder: None })
    }

    /// Where the application finds it.
    #[must_use]
    pub fn direct(&self) -> &str {
        &self.direct
    }

    /// Where relays find it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.through
    }

    /// The network between relays and it; a file has none.
    #[must_use]
    pub fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    /// Kills the server.
    ///
    /// # Errors
    /// When there is none, or it does not run.
    pub fn kill(&self) -> anyhow::Result<()> {
        match &self.server {
            Machine::Postgres(server) => server.kill(),
            Machine::MariaDb(server) => server.kill(),
            Machine::Sqlite => bail!("a file cannot be killed"),
        }
    }

    /// Starts it again.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_again(&self) -> anyhow::Result<()> {
        match &self.server {
            Machine::Postgres(server) => server.start_again(),
            Machine::MariaDb(server) => server.start_again(),
            Machine::Sqlite => bail!("a file cannot be started"),
        }
    }

    /// Freezes the server.
    ///
    /// # Errors
    /// When there is none, or it does not run.
    pub fn freeze(&self) -> anyhow::Result<()> {
        match &self.server {
            Machine::Postgres(server) => server.freeze(),
            Machine::MariaDb(server) => server.freeze(),
            Machine::Sqlite => bail!("a file cannot be frozen"),
        }
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn thaw(&self) -> anyhow::Result<()> {
        match &self.server {
            Machine::Postgres(server) => server.thaw(),
            Machine::MariaDb(server) => server.thaw(),
            Machine::Sqlite => bail!("a file cannot be thawed"),
        }
    }
}

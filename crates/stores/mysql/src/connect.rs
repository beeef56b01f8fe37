//! Connections with the settings an outbox needs.

use std::{net::IpAddr, str::FromStr, time::Duration};

use posthaste_core::StoreError;
use sqlx::{
    ConnectOptions, Connection, Executor, MySqlConnection, MySqlPool,
    mysql::{MySqlConnectOptions, MySqlPoolOptions, MySqlSslMode},
};

use crate::{
    CONNECTIONS_MAX, DEADLINE_DEFAULT,
    error::{Fault, store_error},
};

/// Shorter than the session's `wait_timeout`, so that the pool closes what nobody uses before the
/// server does.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Options from a URL. To another machine the connection is encrypted, or there is none, unless the
/// URL says otherwise: the driver's default falls back to plain text.
pub(crate) fn options(url: &str) -> Result<MySqlConnectOptions, StoreError> {
    // The driver would take any scheme.
    let is_ours = url.starts_with("mysql:") || url.starts_with("mariadb:");
    let options = if is_ours {
        MySqlConnectOptions::from_str(url)
    } else {
        Err(sqlx::Error::Configuration("the scheme is not mysql".into()))
    };
    let options = options.map_err(|error| store_error("connect", error))?;
    let says_so = url.contains("ssl-mode=") || url.contains("sslmode=");
    if says_so || options.get_socket().is_some() || is_loopback(options.get_host()) {
        return Ok(options);
    }
    Ok(options.ssl_mode(MySqlSslMode::Required))
}

fn is_loopback(host: &str) -> bool {
    let address: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// A small pool whose sessions are set up. Connects when first used.
pub(crate) fn pool(options: MySqlConnectOptions) -> MySqlPool {
    MySqlPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(DEADLINE_DEFAULT)
        .idle_timeout(IDLE_TIMEOUT)
        .test_before_acquire(false)
        .after_connect(|connection, _| Box::pin(set_up(connection)))
        .connect_lazy_with(options.pipes_as_concat(false).no_engine_substitution(false))
}

async fn set_up(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    connection.execute(sqlx::raw_sql(include_str!("../sql/session.sql"))).await?;
    Ok(())
}

/// One connection outside any pool, set up alike.
pub(crate) async fn connect(options: &MySqlConnectOptions) -> Result<MySqlConnection, sqlx::Error> {
    let options = options.clone().pipes_as_concat(false).no_engine_substitution(false);
    let mut connection = options.connect().await?;
    set_up(&mut connection).await?;
    Ok(connection)
}

/// One plain attempt: a pool keeps trying until its time is up and then says just that, this tells
/// what is really wrong, at once.
pub(crate) async fn probe(options: &MySqlConnectOptions) -> Result<(), StoreError> {
    let failed = |error| store_error("connect", error);
    match tokio::time::timeout(DEADLINE_DEFAULT, connect(options)).await {
        Ok(connection) => {
            // Nothing was done on it that could be lost.
            let _ = connection.map_err(failed)?.close().await;
            Ok(())
        }
        Err(_) => Err(Fault::TimedOut(DEADLINE_DEFAULT).of("connect")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_is_reached_over_tls_only() {
        let mode = |url| options(url).unwrap().get_ssl_mode();
        for (url, is_required) in [
            ("mysql://u@db.example/app", true),
            ("mysql://u@192.0.2.1:3306/app", true),
            ("mysql://u@127.0.0.1/app", false),
            ("mysql://u@localhost/app", false),
            ("mysql://u@[::1]/app", false),
            ("mysql://u@db.example/app?ssl-mode=disabled", false),
        ] {
            assert_eq!(matches!(mode(url), MySqlSslMode::Required), is_required, "{url}");
        }
    }

    #[test]
    fn a_url_of_another_scheme_is_refused() {
        let refused = options("postgres://u:hunter2@h/db").unwrap_err();
        assert_eq!(refused.kind, posthaste_core::StoreErrorKind::Refused);
        assert!(!format!("{refused:?}").contains("hunter2"));
    }
}

//! Connections with the settings an outbox needs.

use std::{net::IpAddr, str::FromStr, time::Duration};

use posthaste_core::{
    Invalid, StoreError, UrlParameter, UrlValues, check_parameters, misplaced_character,
    several_hosts,
};
use posthaste_store_sql::Fault;
use sqlx::{
    ConnectOptions, Connection, Executor, MySqlConnection, MySqlPool, Row,
    mysql::{MySqlConnectOptions, MySqlPoolOptions, MySqlSslMode},
};
use url::Url;

use crate::{CONNECTIONS_MAX, DEADLINE_DEFAULT, error::store_error};

/// Shorter than the session's `wait_timeout`, so that the pool closes what nobody uses before the
/// server does.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The form of a URL, for errors.
const FORM: &str = "must be of the form mysql://user:password@host:3306/database";

/// Spellings of the parameter about encryption.
const SSL_MODE: &[&str] = &["ssl-mode", "sslmode"];

/// Every parameter that the driver honours, and those that this store cannot let it honour.
const PARAMETERS: &[UrlParameter] = &[
    parameter(
        SSL_MODE,
        UrlValues::Words(&["disabled", "preferred", "required", "verify_ca", "verify_identity"]),
    ),
    parameter(&["ssl-ca", "sslca"], UrlValues::Any),
    parameter(&["ssl-cert", "sslcert"], UrlValues::Any),
    parameter(&["ssl-key", "sslkey"], UrlValues::Any),
    parameter(&["socket"], UrlValues::Any),
    parameter(&["charset"], UrlValues::Words(&["utf8mb4"])),
    parameter(&["collation"], UrlValues::Any),
    parameter(&["statement-cache-capacity"], UrlValues::UpTo(100_000)),
    parameter(&["timezone", "time-zone"], UrlValues::Nothing("sessions of the store are in UTC")),
];

const fn parameter(names: &'static [&'static str], values: UrlValues) -> UrlParameter {
    UrlParameter { names, values }
}

/// Checks a URL as [`MySqlStore::connect`](crate::MySqlStore::connect) does, without connecting:
/// its form, one host, a database, and parameters that are known and have values that they take.
///
/// # Errors
/// `url`, with the part that is wrong and what would be right. No secret of the URL is shown.
pub fn check_url(url: &str) -> Result<(), Invalid> {
    options(url).map(drop)
}

/// Options from a URL. To another machine the connection is encrypted, or there is none, unless the
/// URL says otherwise: the driver's default falls back to plain text.
pub(crate) fn options(text: &str) -> Result<MySqlConnectOptions, Invalid> {
    let wrong = |rule: &str| Invalid::new("url", "mysql://…", rule);
    // The driver would take any scheme.
    if !text.starts_with("mysql:") && !text.starts_with("mariadb:") {
        return Err(wrong("must have the scheme mysql or mariadb"));
    }
    if let Some(rule) = misplaced_character(text) {
        return Err(wrong(rule));
    }
    if let Some(rule) = several_hosts(text) {
        return Err(wrong(&rule));
    }
    let url = Url::parse(text).map_err(|error| wrong(&format!("{FORM}: {error}")))?;
    if url.fragment().is_some() {
        return Err(wrong("must end before the `#`: in a name write `#` as %23"));
    }
    let parameters: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let given = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    check_parameters(given.clone(), PARAMETERS)?;
    // Whatever the driver says may quote a part of the URL.
    let options = MySqlConnectOptions::from_str(text).map_err(|_| wrong(FORM))?;
    if options.get_database().is_none_or(str::is_empty) {
        return Err(wrong(&format!("names no database, which holds the tables: {FORM}")));
    }
    let says_so = given.clone().any(|(name, _)| SSL_MODE.contains(&name));
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
    let cluster = sqlx::raw_sql(include_str!("../sql/find_cluster.sql"));
    // Servers that cannot be clustered have no such setting.
    if let Some(row) = connection.fetch_optional(cluster).await?
        && row.try_get_unchecked::<&[u8], _>(1)?.eq_ignore_ascii_case(b"on")
    {
        connection.execute(sqlx::raw_sql(include_str!("../sql/session_cluster.sql"))).await?;
    }
    Ok(())
}

/// One connection outside any pool, set up alike.
pub(crate) async fn connect(options: &MySqlConnectOptions) -> Result<MySqlConnection, sqlx::Error> {
    let options = options.clone().pipes_as_concat(false).no_engine_substitution(false);
    let mut connection = options.connect().await?;
    set_up(&mut connection).await?;
    Ok(connection)
}

/// One plain attempt: a pool keeps trying until its time is up and then says just that; this tells
/// what is really wrong, at once.
pub(crate) async fn probe(options: &MySqlConnectOptions) -> Result<(), StoreError> {
    let failed = |error| store_error("connect", error);
    match tokio::time::timeout(DEADLINE_DEFAULT, connect(options)).await {
        Ok(connection) => {
            // Nothing was done on it that could be lost.
            let _ = connection.map_err(failed)?.close().await;
            Ok(())
        }
        Err(_) => Err(Fault::timed_out(DEADLINE_DEFAULT).of("connect")),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::refused_url;

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
    fn only_the_parameter_turns_encryption_off() {
        let mode = |url| options(url).unwrap().get_ssl_mode();
        let url = "mysql://u:sslmode=@db.example/app?ssl-ca=/ssl-mode=disabled";
        assert!(matches!(mode(url), MySqlSslMode::Required));
    }

    #[test]
    fn urls_that_the_driver_can_use_pass() {
        for url in [
            "mysql://app:hunter2@db/shop",
            "mariadb://app:p@ss@db:3307/shop?ssl-mode=VERIFY_IDENTITY&ssl-ca=/etc/ca.pem",
            "mysql://app@localhost/shop?socket=/run/mysqld/mysqld.sock&charset=utf8mb4",
        ] {
            assert_eq!(check_url(url), Ok(()), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named_without_its_password() {
        for (url, part) in [
            ("postgres://u:hunter2@h/db", "scheme mysql"),
            ("mysql://app:hunter2@db/shop?ssl-mode=require", "did you mean `required`?"),
            ("mysql://app:hunter2@db/shop?sslmode=on", "one of disabled, preferred"),
            ("mysql://app:hunter2@db/shop?ssl_mode=disabled", "did you mean `ssl-mode`?"),
            ("mysql://db/shop?password=hunter2", "unknown parameter `password`; known: ssl-mode"),
            ("mysql://app:hunter2@a:3306,b:3306/shop", "several hosts (a:3306, b:3306)"),
            ("mysql://app:hunter2@a,b/shop", "several hosts (a, b)"),
            ("mysql://app:hunt#er2@db/shop", "%23"),
            ("mysql://app:1#hunter2@db/shop", "%23"),
            ("mysql://app:hunt?er2@db/shop", "%3F"),
            ("mysql://app:1/hunter2@db/shop", "%2F"),
            ("mysql://app:hunter2@db/shop#hunter2", "%23"),
            ("mysql://app:hunter2", "invalid port number"),
            ("mysql://app:hunter2@db", "names no database"),
            ("mysql://db/shop?charset=latin1", "`charset` as utf8mb4"),
            ("mysql://db/shop?timezone=%2B01:00", "in UTC"),
            ("mysql://db/shop?statement-cache-capacity=x", "from 0 to 100000"),
        ] {
            let invalid = check_url(url).expect_err(url);
            assert_eq!(invalid.field, "url");
            assert!(invalid.rule.contains(part), "{url}: {invalid}");
            let shown = format!("{invalid} {}", refused_url(&invalid));
            assert!(!shown.contains("er2"), "{url}: {shown}");
        }
    }
}

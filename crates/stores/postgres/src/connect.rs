//! Connections from a URL: its rules, and sessions that take writes.

use std::str::FromStr;

use posthaste_core::{
    Invalid, StoreError, StoreErrorKind, UrlParameter, UrlValues, check_parameters,
    misplaced_character, one_host, several_hosts,
};
use posthaste_store_sql::Fault;
use sqlx::{
    Connection, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use url::Url;

use crate::{DEADLINE_DEFAULT, error::store_error};

/// Connections of a pool made by [`PostgresStore::connect`](crate::PostgresStore::connect).
pub const CONNECTIONS_MAX: u32 = 6;

/// The form of a URL, for errors.
const FORM: &str = "must be of the form postgres://user:password@host:5432/database";

/// What is said of a session that a URL with `target_session_attrs` does not want.
const REFUSES_WRITES: &str = "the server refuses writes (a standby, or \
    default_transaction_read_only is on), and target_session_attrs of the URL asks for a server \
    that takes them";

/// The parameter that says which servers a session may be of.
const SESSION: &str = "target_session_attrs";

/// Every parameter that the driver or this store honours, and those of libpq that neither does.
const PARAMETERS: &[UrlParameter] = &[
    parameter(
        &["sslmode", "ssl-mode"],
        UrlValues::Words(&["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]),
    ),
    parameter(&["sslrootcert", "ssl-root-cert", "ssl-ca"], UrlValues::Any),
    parameter(&["sslcert", "ssl-cert"], UrlValues::Any),
    parameter(&["sslkey", "ssl-key"], UrlValues::Any),
    // An outbox is written: a session that must not be able to is no use to it.
    parameter(&[SESSION], UrlValues::Words(&["read-write", "primary", "any"])),
    parameter(&["host"], UrlValues::Any),
    parameter(&["hostaddr"], UrlValues::Any),
    parameter(&["port"], UrlValues::UpTo(65535)),
    parameter(&["dbname"], UrlValues::Any),
    parameter(&["user"], UrlValues::Any),
    parameter(&["password"], UrlValues::Any),
    parameter(&["application_name"], UrlValues::Any),
    parameter(&["options"], UrlValues::Any),
    parameter(&["statement-cache-capacity"], UrlValues::UpTo(100_000)),
    parameter(
        &["connect_timeout"],
        UrlValues::Nothing("an attempt to connect always ends after 10 s"),
    ),
    parameter(
        &["channel_binding"],
        UrlValues::Nothing("the driver cannot bind channels; sslmode=verify-full names the server"),
    ),
    parameter(
        &["load_balance_hosts"],
        UrlValues::Nothing("only one host can be used, the primary's"),
    ),
    parameter(&["service", "passfile"], UrlValues::Nothing("no such file is read")),
    parameter(
        &["sslcrl", "sslpassword", "sslnegotiation", "gssencmode", "requirepeer"],
        UrlValues::Nothing("the driver does not know it"),
    ),
];

const fn parameter(names: &'static [&'static str], values: UrlValues) -> UrlParameter {
    UrlParameter { names, values }
}

/// Checks a URL as [`PostgresStore::connect`](crate::PostgresStore::connect) does, without
/// connecting: its form, one host, and parameters that are known and have values that they take.
///
/// # Errors
/// `url`, with the part that is wrong and what would be right. No secret of the URL is shown.
pub fn check_url(url: &str) -> Result<(), Invalid> {
    target(url).map(drop)
}

/// A database, and the sessions that may be used.
pub(crate) struct Target {
    options: PgConnectOptions,
    sessions: Sessions,
}

/// Which sessions may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sessions {
    /// All. What a server that refuses writes cannot do fails when it is tried.
    Any,
    /// Those that take writes: others are closed when they are opened.
    ReadWrite,
}

/// Takes a URL apart.
pub(crate) fn target(text: &str) -> Result<Target, Invalid> {
    let wrong = |rule: &str| Invalid::new("url", "postgres://…", rule);
    if !text.starts_with("postgres:") && !text.starts_with("postgresql:") {
        return Err(wrong("must have the scheme postgres"));
    }
    if let Some(rule) = misplaced_character(text) {
        return Err(wrong(rule));
    }
    if let Some(rule) = several_hosts(text) {
        return Err(wrong(&rule));
    }
    let mut url = Url::parse(text).map_err(|error| wrong(&format!("{FORM}: {error}")))?;
    if url.fragment().is_some() {
        return Err(wrong("must end before the `#`: in a name write `#` as %23"));
    }
    let parameters: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    check(&parameters)?;
    let (session, rest): (Vec<_>, Vec<_>) =
        parameters.into_iter().partition(|(name, _)| name == SESSION);
    let sessions = match session.last() {
        Some((_, word)) if !word.eq_ignore_ascii_case("any") => Sessions::ReadWrite,
        _ => Sessions::Any,
    };
    // The driver warns about what it does not know, and this one is ours.
    if !session.is_empty() {
        url.query_pairs_mut().clear().extend_pairs(rest);
    }
    // Whatever the driver says may quote a part of the URL.
    let options = PgConnectOptions::from_str(url.as_str()).map_err(|_| wrong(FORM))?;
    let options = match options.get_application_name() {
        Some(_) => options,
        None => options.application_name("posthaste"),
    };
    // Poolers refuse this parameter, and floating point numbers come in binary anyway.
    Ok(Target { options: options.extra_float_digits(None), sessions })
}

fn check(parameters: &[(String, String)]) -> Result<(), Invalid> {
    let is_setting = |name: &str| name.starts_with("options[") && name.ends_with(']');
    let given = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    check_parameters(given.clone().filter(|(name, _)| !is_setting(name)), PARAMETERS)?;
    for (name, value) in given {
        let wrong = |rule: &str| Invalid::new("url", &format!("…?{name}=…"), rule);
        if matches!(name, "host" | "hostaddr") && value.contains(',') {
            return Err(wrong(&one_host(value)));
        }
        if name == "hostaddr" && value.parse::<std::net::IpAddr>().is_err() {
            return Err(wrong("must have an IP address as `hostaddr`"));
        }
    }
    Ok(())
}

/// A small pool. Makes one plain attempt to connect first: a pool keeps trying until its time is up
/// and then says just that, an attempt tells what is really wrong, at once.
pub(crate) async fn pool(target: Target) -> Result<PgPool, StoreError> {
    let Target { options, sessions } = target;
    let attempt = async {
        let mut connection = PgConnection::connect_with(&options).await?;
        let may_be_used = may_be_used(&mut connection, sessions).await;
        // Nothing was done on it that could be lost.
        let _ = connection.close().await;
        may_be_used
    };
    match tokio::time::timeout(DEADLINE_DEFAULT, attempt).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => {
            return Err(StoreError::new(StoreErrorKind::ReadOnly, "connect", REFUSES_WRITES));
        }
        Ok(Err(error)) => return Err(store_error("connect", error)),
        Err(_) => return Err(Fault::timed_out(DEADLINE_DEFAULT).of("connect")),
    }
    let pool = pool_options().after_connect(move |connection, _| {
        Box::pin(async move {
            // The pool closes it and goes on trying: the address may be about to move.
            match may_be_used(connection, sessions).await? {
                true => Ok(()),
                false => Err(sqlx::Error::Io(std::io::Error::other(REFUSES_WRITES))),
            }
        })
    });
    Ok(pool.connect_lazy_with(options))
}

/// No hook looks at connections that come back: every call runs in a task that nothing cancels, and
/// a connection that misses its deadline is closed, so none comes back inside a transaction.
fn pool_options() -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(DEADLINE_DEFAULT)
        .test_before_acquire(false)
}

/// Whether a session just opened is one of those that may be used.
async fn may_be_used(
    connection: &mut PgConnection,
    sessions: Sessions,
) -> Result<bool, sqlx::Error> {
    match sessions {
        Sessions::Any => Ok(true),
        Sessions::ReadWrite => {
            let look = sqlx::query_scalar(include_str!("../sql/session_is_writable.sql"));
            look.persistent(false).fetch_one(connection).await
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::refused_url;

    use super::*;

    #[test]
    fn urls_that_the_driver_can_use_pass() {
        for url in [
            "postgres://app:hunter2@db/shop",
            "postgresql://app:p@ss@db:5433/shop?sslmode=verify-full&sslrootcert=/etc/ca.pem",
            "postgres:///shop?host=/run/postgresql",
            "postgres://%2Frun%2Fpostgresql/shop",
            "postgres://[::1]:5432/shop?application_name=me&options=-c%20work_mem%3D1MB",
            "postgres://db/shop?options[search_path]=x&ssl-mode=DISABLE",
            "postgres://db/shop?user=app@example&password=a%23b&hostaddr=10.0.0.1&port=1",
            "postgres://db/shop?target_session_attrs=read-write",
        ] {
            assert_eq!(check_url(url), Ok(()), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named_without_its_password() {
        for (url, part) in [
            ("postgres://app:hunter2@db/shop?sslmode=on", "`sslmode` as one of disable, allow"),
            ("postgres://app:hunter2@db/shop?sslmode=", "`sslmode` as one of"),
            ("postgres://app:hunter2@db/shop?sslmod=require", "did you mean `sslmode`?"),
            ("postgres://app:hunter2@db/shop?hunter2", "not like `name=value`"),
            ("postgres://db/shop?passwrd=hunter2", "did you mean `password`?"),
            ("postgres://app:hunter2@a:5432,b:5432/shop", "several hosts (a:5432, b:5432)"),
            ("postgres://app:hunter2@a,b/shop", "several hosts (a, b)"),
            ("postgres://db/shop?host=a,b", "several hosts (a, b)"),
            ("postgres://db/shop?hostaddr=hunter2", "must have an IP address"),
            ("postgres://db/shop?port=70000", "`port` from 0 to 65535"),
            ("postgres://app:hunt#er2@db/shop", "%23"),
            ("postgres://app:1#hunter2@db/shop", "%23"),
            ("postgres://app:hunt?er2@db/shop", "%3F"),
            ("postgres://app:1/hunter2@db/shop", "%2F"),
            ("postgres://app:hunter2@db/shop#hunter2", "%23"),
            ("postgres://app:hunter2", "invalid port number"),
            ("postgres://app@db:hunter2/shop", "invalid port number"),
            ("mysql://app:hunter2@db/shop", "scheme postgres"),
            ("postgres://db/shop?target_session_attrs=standby", "read-write, primary, any"),
            ("postgres://db/shop?channel_binding=require", "must not have the parameter"),
            ("postgres://db/shop?connect_timeout=3", "10 s"),
            ("postgres://db/shop?service=hunter2", "no such file is read"),
        ] {
            let invalid = check_url(url).expect_err(url);
            assert_eq!(invalid.field, "url");
            assert!(invalid.rule.contains(part), "{url}: {invalid}");
            let shown = format!("{invalid} {}", refused_url(&invalid));
            assert!(!shown.contains("er2"), "{url}: {shown}");
        }
    }

    #[test]
    fn the_name_of_sessions_is_ours_unless_the_url_has_one() {
        let name = |url: &str| {
            let options = target(url).expect("a good URL").options;
            options.get_application_name().map(str::to_owned)
        };
        assert_eq!(name("postgres://db/shop").as_deref(), Some("posthaste"));
        assert_eq!(name("postgres://db/shop?application_name=relay").as_deref(), Some("relay"));
    }
}

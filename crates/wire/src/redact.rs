//! URLs without their secrets, for errors, logs and debug output. Nothing else in the workspace
//! decides which part of a URL may be shown.
//!
//! A URL is read as text and not parsed: one that is not valid is the one that gets into an error, and a
//! password may be what made it so.

use posthaste_core::shown_servers;

/// Stands for a URL, or for all of it behind the scheme.
const HIDDEN: &str = "(not shown)";

/// What URLs of a scheme have beside one server, and may show.
struct Shown {
    /// A user without a password. Elsewhere that may be a token, or a password without its `:`.
    user: bool,
    /// Several servers. Elsewhere what follows a comma may be a part of a password.
    servers: bool,
    /// A path: a database or a virtual host. Elsewhere it may be a token.
    path: bool,
    /// Which parameters are shown with their values.
    parameter: fn(&str) -> bool,
}

impl Shown {
    /// Schemes that are not listed show a user with a password, and the server.
    fn of(scheme: &str) -> Self {
        let open: fn(&str) -> bool = |name| !is_secret_parameter(name);
        let nothing = Self { user: false, servers: false, path: false, parameter: |_| false };
        match scheme {
            "postgres" | "postgresql" | "mysql" | "mariadb" => {
                Self { user: true, servers: true, path: true, parameter: open }
            }
            "sqlite" => Self { path: true, parameter: open, ..nothing },
            "amqp" | "amqps" | "redis" | "rediss" => Self { path: true, ..nothing },
            "kafka" => {
                let parameter = |name: &str| matches!(name, "security" | "sasl_mechanism");
                Self { servers: true, parameter, ..nothing }
            }
            "nats" | "tls" => Self { servers: true, ..nothing },
            _ => nothing,
        }
    }
}

/// A URL, or several with commas between, as it may be shown: `***` stands for each secret.
/// `(not shown)` stands for what cannot be told from one, such as all of a URL with an `@` behind its
/// host: a bare `/`, `?` or `#` in a password looks like the end of the host.
#[must_use]
pub fn redacted(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(comma) = next_url(rest) {
        shown += &redacted_one(&rest[..comma]);
        shown.push(',');
        rest = &rest[comma + 1..];
    }
    shown + &redacted_one(rest)
}

/// The first comma with another URL behind it. Any other may be a part of a password.
fn next_url(text: &str) -> Option<usize> {
    let begins_url = |text: &str| text.split_once("://").is_some_and(|(start, _)| is_scheme(start));
    let commas = text.match_indices(',').map(|(comma, _)| comma);
    commas.into_iter().find(|comma| begins_url(text[comma + 1..].trim_start()))
}

fn redacted_one(url: &str) -> String {
    let url = url.trim();
    // A file has no server.
    let file = url.strip_prefix("sqlite:").filter(|rest| !rest.starts_with("//"));
    let (scheme, mark, rest) = match (file, url.split_once("://")) {
        (Some(rest), _) => ("sqlite", ":", rest),
        (None, Some((scheme, rest))) if is_scheme(scheme) => (scheme, "://", rest),
        (None, _) => return HIDDEN.to_owned(),
    };
    let shown = Shown::of(scheme);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(if file.is_some() { 0 } else { end });
    let (user, servers) = authority
        .rsplit_once('@')
        .map_or((None, authority), |(user, servers)| (Some(user), servers));
    if tail.contains('@')
        || servers.contains(',') && !shown.servers
        || shown_servers(servers) != servers
        || url.contains(char::is_control)
    {
        return format!("{scheme}{mark}{HIDDEN}");
    }
    let user = match user.map(|user| user.split_once(':').ok_or(user)) {
        Some(Ok((name, _))) => format!("{name}:***@"),
        Some(Err(name)) if shown.user => format!("{name}@"),
        Some(Err(_)) => "***@".to_owned(),
        None => String::new(),
    };
    format!("{scheme}{mark}{user}{servers}{}", redacted_tail(tail, &shown))
}

/// Path, parameters and fragment.
fn redacted_tail(tail: &str, shown: &Shown) -> String {
    let (tail, fragment) = tail.split_once('#').map_or((tail, ""), |(tail, _)| (tail, "#***"));
    let (path, query) = tail.split_once('?').map_or((tail, None), |(path, q)| (path, Some(q)));
    let path = if shown.path || matches!(path, "" | "/") { path } else { "/***" };
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let parameter = |text: &str| match text.split_once('=').filter(|(name, _)| is_name(name)) {
        Some((name, _)) if (shown.parameter)(name) => text.to_owned(),
        Some((name, _)) if is_secret_parameter(name) => format!("{name}=***"),
        // It may be a piece of a password.
        _ => "***".to_owned(),
    };
    let parameters = |query: &str| query.split('&').map(parameter).collect::<Vec<_>>().join("&");
    let query = query.map_or_else(String::new, |query| format!("?{}", parameters(query)));
    format!("{path}{query}{fragment}")
}

/// Whether the name of a parameter says that its value is secret.
#[must_use]
pub fn is_secret_parameter(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = ["pass", "pwd", "secret", "token", "key", "auth", "cred", "jaas", "jwt"];
    words.iter().any(|word| name.contains(word))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_secrets() {
        for (url, shown) in [
            ("redis://me:hunter2@host:6379/1", "redis://me:***@host:6379/1"),
            ("redis://:hunter2@host", "redis://:***@host"),
            ("redis://hunter2@host", "redis://***@host"),
            ("amqps://me:hunter2@[::1]:5671/shop", "amqps://me:***@[::1]:5671/shop"),
            ("amqp://host/%2f", "amqp://host/%2f"),
            ("nats://hunter2@a:4222,b", "nats://***@a:4222,b"),
            ("nats://me:hunter2@a, tls://hunter2@b", "nats://me:***@a,tls://***@b"),
            ("kafka://me:hunter2@one:9092,two:9092/", "kafka://me:***@one:9092,two:9092/"),
            (
                "kafka://one/?security=ssl&sasl_password=hunter2",
                "kafka://one/?security=ssl&sasl_password=***",
            ),
            ("mqtts://me:hunter2@host", "mqtts://me:***@host"),
            ("https://example.com/hunter2?t=hunter2#hunter2", "https://example.com/***?***#***"),
            ("https://example.com/", "https://example.com/"),
            ("tcp://host:1", "tcp://host:1"),
            ("postgres://app@db/shop?sslmode=require", "postgres://app@db/shop?sslmode=require"),
            ("postgres://app:hunter2@one:1,two:2/shop", "postgres://app:***@one:1,two:2/shop"),
            ("sqlite:/var/shop.db?mode=ro", "sqlite:/var/shop.db?mode=ro"),
            ("sqlite:///var/shop.db", "sqlite:///var/shop.db"),
        ] {
            assert_eq!(redacted(url), shown, "{url}");
        }
    }

    #[test]
    fn a_password_that_breaks_its_url_is_not_shown() {
        for (url, shown) in [
            // `@` in a password: the last one before the host ends it.
            ("amqp://me:hun@ter2@host/shop", "amqp://me:***@host/shop"),
            ("amqp://me:@hunter2@host/shop", "amqp://me:***@host/shop"),
            // A bare `/`, `?` or `#` in a password.
            ("amqp://me:hun/ter2@host/shop", "amqp://(not shown)"),
            ("amqp://me:12/hunter2@host/shop", "amqp://(not shown)"),
            ("amqp://me:p@12/hunter2@host/shop", "amqp://(not shown)"),
            ("kafka://me:hun?ter2@one", "kafka://(not shown)"),
            ("redis://:12#hunter2@host/0", "redis://(not shown)"),
            ("https://me:hun\\ter2@host/", "https://me:***@host/"),
            // Percent-encoded.
            ("redis://me:hunter%32%40@host", "redis://me:***@host"),
            ("redis://hunter%32@host", "redis://***@host"),
            // Without a scheme, or with half of one.
            ("me:hunter2@host", "(not shown)"),
            ("hunter2", "(not shown)"),
            ("redis//me:hunter2@host", "(not shown)"),
            ("redis:me:hunter2@host", "(not shown)"),
            ("me:hunter2://host", "(not shown)"),
            ("", "(not shown)"),
            // Without a host.
            ("nats://me:hunter2", "nats://(not shown)"),
            ("kafka://me:hunter2@", "kafka://me:***@"),
            ("kafka://one,me:hunter2", "kafka://(not shown)"),
            // A comma in a password, or what looks like another server.
            ("nats://me:hun,ter2@a,b", "nats://me:***@a,b"),
            ("nats://a:1,nats://me:hun,ter2", "nats://a:1,nats://(not shown)"),
            ("redis://host,hunter2:1", "redis://(not shown)"),
            ("tcp://one:1,hunter2:2", "tcp://(not shown)"),
            // A user or a password among the parameters.
            ("nats://a?token=hun@ter2", "nats://(not shown)"),
            ("nats://a/?user=me:hunter2&token=hunter2", "nats://a/?***&token=***"),
            ("https://host/?hunter2=1", "https://host/?***"),
            ("mqtt://h/hunter2", "mqtt://h/***"),
            ("kafka://one?hunter2", "kafka://one?***"),
            ("kafka://one?pass%77ord=hunter2", "kafka://one?***"),
            ("kafka://one?SASL_PassWord=hunter2", "kafka://one?SASL_PassWord=***"),
            ("postgres://db/shop?password=hunter2&a=b", "postgres://db/shop?password=***&a=b"),
            ("postgres://db/shop?user=me&hunter2", "postgres://db/shop?user=me&***"),
            // Line breaks, which logs would take for another line.
            ("redis://host/1\nhunter2", "redis://(not shown)"),
        ] {
            assert_eq!(redacted(url), shown, "{url}");
            assert!(!redacted(url).contains("ter2"), "{url}");
        }
    }
}

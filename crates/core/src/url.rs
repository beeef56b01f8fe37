//! Rules of connection URLs that stores and brokers share: characters that must be percent-encoded,
//! and the parameters that a driver knows. No rule quotes a part of the URL that may be a secret:
//! the text after a misplaced character may be the second half of a password.
//!
//! This module neither connects nor decodes: drivers parse URLs themselves.

use crate::{Invalid, StoreError, StoreErrorKind};

/// The least similarity (Jaro-Winkler) of a known name that is suggested for an unknown one.
const LIKENESS_MIN: f64 = 0.8;

/// The rule that a URL breaks if its user name or password holds a bare `/`, `?` or `#`: each of
/// them ends the part of the URL that names user, password and host. The sign of this is an `@` in
/// the path, in the fragment or in the name of a parameter, or an `@` anywhere behind a port that
/// is no number. `None` if the URL shows no such sign.
#[must_use]
pub fn misplaced_character(url: &str) -> Option<&'static str> {
    const SLASH: &str = "has a `/` before the `@`, where a path begins: in a user name or password \
                         write `/` as %2F";
    const QUESTION_MARK: &str = "has a `?` before the `@`, where parameters begin: in a user name \
                                 or password write `?` as %3F";
    const HASH: &str = "has a `#` before the `@`, and what follows a `#` looks like a fragment: in \
                        a user name or password write `#` as %23";
    let (_, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#'])?;
    let (authority, tail) = rest.split_at(end);
    if tail.contains('@') && !authority.contains('@') && !ends_with_host(authority) {
        return Some(match tail.as_bytes()[0] {
            b'/' => SLASH,
            b'?' => QUESTION_MARK,
            _ => HASH,
        });
    }
    let (tail, fragment) = tail.split_once('#').unwrap_or((tail, ""));
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    // The value of a parameter may hold an `@`; no name of a parameter does.
    let name = query.split('=').next().unwrap_or_default();
    match () {
        () if path.contains('@') => Some(SLASH),
        () if name.contains('@') => Some(QUESTION_MARK),
        () if fragment.contains('@') => Some(HASH),
        () => None,
    }
}

/// Whether the authority part ends with a host, or with a port that is a number.
fn ends_with_host(authority: &str) -> bool {
    match authority.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.bytes().all(|byte| byte.is_ascii_digit()),
        _ => true,
    }
}

/// The accepted values of a URL parameter.
#[derive(Clone, Copy, Debug)]
pub enum UrlValues {
    /// Any text. It may be a secret or the name of a file, and is never shown.
    Any,
    /// A whole number from 0 to this one.
    UpTo(u64),
    /// One of these words, in upper or lower case.
    Words(&'static [&'static str]),
    /// No value: other programs know the parameter, but it cannot be honoured here, for this
    /// reason.
    Nothing(&'static str),
}

/// A parameter that URLs of one database may have.
#[derive(Clone, Copy, Debug)]
pub struct UrlParameter {
    /// The spellings of the name. Errors suggest the first.
    pub names: &'static [&'static str],
    /// The accepted values.
    pub values: UrlValues,
}

/// Checks decoded parameters of a URL against those that its driver knows, so that none is ignored.
///
/// # Errors
/// Field `url`, with the first parameter that is unknown, cannot be honoured or has an invalid
/// value; the rule names the accepted values. The value is shown only if the parameter takes words
/// or numbers.
pub fn check_parameters<'a>(
    given: impl IntoIterator<Item = (&'a str, &'a str)>,
    known: &[UrlParameter],
) -> Result<(), Invalid> {
    given.into_iter().try_for_each(|(name, value)| check_parameter(name, value, known))
}

fn check_parameter(name: &str, value: &str, known: &[UrlParameter]) -> Result<(), Invalid> {
    let Some(parameter) = known.iter().find(|parameter| parameter.names.contains(&name)) else {
        return Err(unknown(name, value, known));
    };
    let wrong = |rule: String| Invalid::new("url", &format!("…?{name}={value}"), &rule);
    match parameter.values {
        UrlValues::Any => Ok(()),
        UrlValues::UpTo(max) if value.parse().is_ok_and(|number: u64| number <= max) => Ok(()),
        UrlValues::UpTo(max) => Err(wrong(format!("must have a `{name}` from 0 to {max}"))),
        UrlValues::Words(words) if words.iter().any(|word| word.eq_ignore_ascii_case(value)) => {
            Ok(())
        }
        UrlValues::Words(words) => {
            let hint = nearest(value, words).map(|near| format!("; did you mean `{near}`?"));
            let one_of = match words {
                [only] => format!("as {only}"),
                words => format!("as one of {}", words.join(", ")),
            };
            Err(wrong(format!("must have `{name}` {one_of}{}", hint.unwrap_or_default())))
        }
        UrlValues::Nothing(reason) => {
            let rule = format!("must not have the parameter `{name}`: {reason}");
            Err(Invalid::new("url", &format!("…?{name}=…"), &rule))
        }
    }
}

fn unknown(name: &str, value: &str, known: &[UrlParameter]) -> Invalid {
    let mut usable = known.iter().filter(|known| !matches!(known.values, UrlValues::Nothing(_)));
    let names: Vec<&str> = usable.clone().map(|known| known.names[0]).collect();
    let names = names.join(", ");
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-[]".contains(c);
    // A text that does not look like a name, or has no value, may be a piece of a password.
    if value.is_empty() || !name.chars().all(is_word) {
        let rule = format!("has a parameter that is not like `name=value`; known: {names}");
        return Invalid::new("url", "…?…", &rule);
    }
    let spellings: Vec<&str> = usable.clone().flat_map(|known| known.names).copied().collect();
    let near = nearest(name, &spellings);
    let near = near.and_then(|near| usable.find(|known| known.names.contains(&near)));
    let hint = near.map(|near| format!(" did you mean `{}`?", near.names[0])).unwrap_or_default();
    let rule = format!("has the unknown parameter `{name}`;{hint} known: {names}");
    Invalid::new("url", &format!("…?{name}=…"), &rule)
}

/// The error of a store's `connect` for a URL that breaks a rule: kind `Refused`.
#[must_use]
pub fn refused_url(invalid: &Invalid) -> StoreError {
    let message = format!("the database URL {} {}", invalid.value, invalid.rule);
    StoreError::new(StoreErrorKind::Refused, "connect", message)
}

/// The candidate most similar to the word, if one is similar enough.
fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    let likeness = |candidate: &str| strsim::jaro_winkler(&word, candidate);
    let best = candidates.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) > LIKENESS_MIN).then_some(best)
}

/// Servers as `host:port`, separated by commas, with `***` for a part that is no server: it may be
/// part of a password without its server, or with a comma in it.
#[must_use]
pub fn shown_servers(list: &str) -> String {
    let shown = list.split(',').map(|server| if is_server(server.trim()) { server } else { "***" });
    shown.collect::<Vec<_>>().join(",")
}

fn is_server(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (text, "0"),
    };
    let is_address = host.starts_with('[') && host.ends_with(']');
    let is_in_host = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_in_address = |c: char| c.is_ascii_hexdigit() || "[].:%".contains(c);
    let is_host =
        if is_address { host.chars().all(is_in_address) } else { host.chars().all(is_in_host) };
    is_host && port.parse::<u16>().is_ok()
}

/// The rule that a URL with several hosts breaks, for drivers that connect to one host. `None` if
/// it names one host or none.
#[must_use]
pub fn several_hosts(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    hosts.contains(',').then(|| one_host(hosts))
}

/// The rule that a list of hosts breaks if only one host is allowed.
#[must_use]
pub fn one_host(hosts: &str) -> String {
    format!(
        "names several hosts ({}), and only one can be used: give the address that follows the \
         primary, such as that of a proxy, a virtual IP or a DNS name",
        shown_servers(hosts).replace(',', ", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_character_in_a_password_is_found() {
        for (url, written) in [
            ("postgres://app:pa#ss@db/shop", Some("%23")),
            ("postgres://app:12#ss@db/shop", Some("%23")),
            ("postgres://app:pa?ss@db/shop", Some("%3F")),
            ("postgres://app:12?ss@db/shop", Some("%3F")),
            ("postgres://app:pa?s=s@db/shop", Some("%3F")),
            ("postgres://app:pa/ss@db/shop", Some("%2F")),
            ("postgres://app:12/ss@db/shop", Some("%2F")),
            ("redis://:12#ss@cache:6379/0", Some("%23")),
            ("postgres://app:p@s/s@db/shop", Some("%2F")),
            ("postgres://app:p@s#s@db/shop", Some("%23")),
            ("postgres://app:p@ss@db/shop", None),
            ("postgres://app:pa%23ss@db/shop", None),
            ("postgres://db/shop?user=app@example", None),
            ("postgres://[::1]/shop?user=app@example", None),
            ("postgres://db:5432/shop?user=app@example&password=p@ss", None),
            ("postgres://db/shop#replica", None),
            ("sqlite:a#b@c", None),
            ("postgres://db", None),
        ] {
            let rule = misplaced_character(url);
            assert_eq!(rule.is_some(), written.is_some(), "{url}: {rule:?}");
            assert!(rule.unwrap_or_default().contains(written.unwrap_or_default()), "{url}");
        }
    }

    const KNOWN: [UrlParameter; 4] = [
        UrlParameter { names: &["sslmode", "ssl-mode"], values: UrlValues::Words(&["on", "off"]) },
        UrlParameter { names: &["password"], values: UrlValues::Any },
        UrlParameter { names: &["port"], values: UrlValues::UpTo(65535) },
        UrlParameter { names: &["service"], values: UrlValues::Nothing("no file is read") },
    ];

    #[test]
    fn known_parameters_pass() {
        let given = [("ssl-mode", "ON"), ("password", "hunter2"), ("port", "1")];
        assert_eq!(check_parameters(given, &KNOWN), Ok(()));
    }

    #[test]
    fn a_refused_parameter_is_named_with_what_would_be_right() {
        for ((name, value), value_shown, rule) in [
            (("sslmode", "of"), "…?sslmode=of", "one of on, off; did you mean `off`?"),
            (("sslmode", "x"), "…?sslmode=x", "must have `sslmode` as one of on, off"),
            (("port", "65536"), "…?port=65536", "must have a `port` from 0 to 65535"),
            (("service", "x"), "…?service=…", "must not have the parameter `service`: no file"),
            (("sslmod", "hunter2"), "…?sslmod=…", "`sslmod`; did you mean `sslmode`? known: ssl"),
            (("ssl_mode", "x"), "…?ssl_mode=…", "did you mean `sslmode`?"),
            (("zzz", "hunter2"), "…?zzz=…", "`zzz`; known: sslmode, password, port"),
            (("hunter2", ""), "…?…", "not like `name=value`; known: sslmode, password, port"),
            (("hunter 2", "x"), "…?…", "not like `name=value`"),
        ] {
            let invalid = check_parameters([(name, value)], &KNOWN).unwrap_err();
            assert_eq!(invalid.value, value_shown);
            assert!(invalid.rule.contains(rule), "{invalid}");
            assert!(!invalid.to_string().contains("hunter"), "{invalid}");
        }
    }

    #[test]
    fn several_hosts_are_named_without_a_password() {
        for (url, hosts) in [
            ("postgres://app:hunter2@one:5432,two:5433/shop", Some("one:5432, two:5433")),
            ("postgres://one,two/shop", Some("one, two")),
            ("postgres://hunter2:x,two/shop", Some("***, two")),
            ("postgres://app:a,b@one/shop", None),
            ("postgres://one/a,b", None),
        ] {
            let rule = several_hosts(url);
            assert_eq!(rule.is_some(), hosts.is_some(), "{url}");
            let rule = rule.unwrap_or_default();
            assert!(rule.contains(hosts.unwrap_or_default()), "{rule}");
            assert!(!rule.contains("hunter2"), "{rule}");
        }
    }

    #[test]
    fn only_servers_are_shown() {
        for (list, shown) in [
            ("a", "a"),
            ("a:9092, b-1.example:4222", "a:9092, b-1.example:4222"),
            ("[::1]:9092,[fe80::1]", "[::1]:9092,[fe80::1]"),
            ("", ""),
            ("me:hunter2", "***"),
            ("a:70000,b", "***,b"),
            ("a:1:2", "***"),
            ("hunter%32", "***"),
            ("a/hunter2", "***"),
            ("a?hunter2,b", "***,b"),
        ] {
            assert_eq!(shown_servers(list), shown, "{list}");
        }
    }
}

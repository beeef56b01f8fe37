//! Problems of a configuration, reported all at once, each with its code, its place and help.
//! Values shown here have passed `redact`.

use std::fmt;

use posthaste_wire::{is_secret_parameter, redacted};

use super::sources::Origin;

/// One problem of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The stable code; see `explain.rs`.
    pub(crate) code: &'static str,
    /// The problem, with the key and the value.
    pub(crate) what: String,
    /// File position, variable or flag; empty if the problem has no place.
    pub(crate) place: String,
    /// Line and column in the file, for sorting; problems outside the file come last.
    order: (usize, usize),
    /// How to fix it.
    pub(crate) help: Option<String>,
}

impl Problem {
    /// A problem without a place.
    pub(crate) fn new(code: &'static str, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), place: String::new(), order: (usize::MAX, 0), help: None }
    }

    /// Sets the place.
    #[must_use]
    pub(crate) fn at(mut self, origin: &Origin) -> Self {
        if *origin != Origin::Default {
            self.place = origin.to_string();
        }
        if let Origin::File { line, column, .. } = origin {
            self.order = (*line, *column);
        }
        self
    }

    /// Sets the help.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.what)?;
        if !self.place.is_empty() {
            write!(f, "\n  --> {}", self.place)?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  = help: {}", help.replace('\n', "\n          "))?;
        }
        Ok(())
    }
}

/// All problems of a configuration. Exit code 78.
#[derive(Debug, thiserror::Error)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.0 {
            writeln!(f, "{problem}\n")?;
        }
        match self.0.len() {
            1 => write!(f, "1 problem in the configuration"),
            n => write!(f, "{n} problems in the configuration"),
        }
    }
}

impl Problems {
    /// Problems in the order of the file.
    pub(crate) fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.order);
        Self(problems)
    }
}

/// A URL as it may be shown. A text that can hold no password, such as `stdout:`, is shown as it is.
pub(crate) fn redact_url(text: &str) -> String {
    let is_open = !text.contains("://") && !text.contains(['@', '=']);
    if is_open { text.to_owned() } else { redacted(text) }
}

/// The value in a form that can be shown: a text that may be a URL with a misplaced password is
/// hidden.
pub(crate) fn redact(text: &str) -> String {
    if text.contains(['@', '=']) || text.contains("://") {
        return redact_url(text);
    }
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// The passwords in a URL, as written and decoded, longest first: for taking them out of the text
/// of an error that someone else wrote.
pub(crate) fn secrets(text: &str) -> Vec<String> {
    let mut secrets = Vec::new();
    if let Some((before_host, _)) = text.rsplit_once('@')
        && let Some((_, userinfo)) = before_host.split_once("://")
        && let Some((_, password)) = userinfo.split_once(':')
    {
        secrets.push(password.to_owned());
    }
    if let Ok(url) = url::Url::parse(text) {
        let parameters = url.query_pairs().into_owned();
        secrets.extend(parameters.filter(|(n, _)| is_secret_parameter(n)).map(|(_, v)| v));
        if let Some(password) = url.password() {
            let decoded = url::form_urlencoded::parse(format!("p={password}").as_bytes())
                .map(|(_, value)| value.into_owned())
                .next();
            secrets.push(password.to_owned());
            secrets.extend(decoded);
        }
    }
    secrets.retain(|secret| !secret.is_empty());
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_never_show() {
        for (url, shown) in [
            ("postgres://app:hunter2@db/shop", "postgres://app:***@db/shop"),
            ("postgres://db/shop?password=hunter2&a=b", "postgres://db/shop?password=***&a=b"),
            ("postgres://app:1/hunter2@db/shop", "postgres://(not shown)"),
            ("nats://me:hunter2", "nats://(not shown)"),
            ("kafka://one:9092,me:hunter2/", "kafka://(not shown)"),
            ("kafka://one:9092,[::1]:9092/", "kafka://one:9092,[::1]:9092/"),
            ("postgres://app:a/hunter2@db/shop", "postgres://(not shown)"),
            ("postgres//app:hunter2@db/shop", "(not shown)"),
            ("app:hunter2@db", "(not shown)"),
            ("host=db password=hunter2", "(not shown)"),
            ("sqlite:a.db", "sqlite:a.db"),
            ("postgres://app@db/shop", "postgres://app@db/shop"),
            ("nats://hunter2@a", "nats://***@a"),
            ("https://example.com/hunter2", "https://example.com/***"),
        ] {
            assert_eq!(redact_url(url), shown);
            assert!(!redact(url).contains("hunter2"), "{url}");
        }
    }

    #[test]
    fn passwords_are_known_as_written_and_decoded() {
        let secrets = secrets("postgres://app:hunter%32@db/shop?sslpassword=x");
        assert!(secrets.contains(&"hunter%32".to_owned()));
        assert!(secrets.contains(&"hunter2".to_owned()));
        assert!(secrets.contains(&"x".to_owned()));
    }
}

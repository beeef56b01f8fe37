//! Rules between several values, and between a value and files or the environment.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use posthaste_broker_http::Secret;

use super::{
    Config, Needs, Problem, SecretUrl,
    problem::redact,
    read::{Reading, Section, nearest},
    setting::{Secrets, Setting},
    sources::{Origin, Table, Value},
};

/// Longest name of a broker, a relay or a route.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// Checks that the settings which a command requires are set. A setting with a wrong value is not
/// reported as missing too.
pub(crate) fn needs(root: &Table, needs: Needs, problems: &mut Vec<Problem>) {
    let has_store = match root.get("store").map(|node| &node.value) {
        Some(Value::Table(store)) => store.contains_key("url") || store.contains_key("url_file"),
        other => other.is_some(),
    };
    if needs != Needs::Nothing && !has_store {
        problems.push(Problem::new("PH-2006", "no store is configured").help(
            "set `url` under [store] in posthaste.toml, or POSTHASTE_STORE__URL, \
             or pass --store URL",
        ));
    }
    let has_routes = match root.get("route").map(|node| &node.value) {
        Some(Value::List(routes)) => !routes.is_empty(),
        other => other.is_some(),
    };
    if needs == Needs::Relay && !has_routes {
        problems.push(Problem::new("PH-2006", "no route is configured").help(
            "the smallest working configuration:\n\
             [[broker]]\nname = \"out\"\nurl = \"stdout:\"\n\n\
             [[route]]\nname = \"all\"\ntopics = [\"*\"]",
        ));
    }
}

/// Names of brokers, or of routes, seen so far.
#[derive(Default)]
pub(crate) struct Names(BTreeSet<String>);

impl Names {
    /// The name, if there is exactly one.
    pub(crate) fn only(&self) -> Option<&String> {
        self.0.first().filter(|_| self.0.len() == 1)
    }

    /// Checks that the name is unique and has only characters that are valid in metrics.
    pub(crate) fn check(
        &mut self,
        section: &Section<'_>,
        name: Option<&String>,
        problems: &mut Vec<Problem>,
    ) {
        let Some(name) = name else {
            return;
        };
        let key = section.key("name");
        let origin = section.origin("name");
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
            let what = format!("`{key}` is {:?}", redact(name));
            let help = format!(
                "give 1 to {NAME_BYTES_MAX} letters, digits, `.`, `_` or `-`: names are labels of metrics"
            );
            problems.push(Problem::new("PH-2004", what).at(&origin).help(help));
        }
        if !self.0.insert(name.clone()) {
            let what = format!("`{key}` is {:?}, a name that is already used", redact(name));
            let problem = Problem::new("PH-2007", what).at(&origin);
            problems.push(problem.help("names must be unique: rename one of the two"));
        }
    }
}

/// A character of names.
pub(crate) fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

/// Checks that a route names an existing broker.
pub(crate) fn reference(
    section: &Section<'_>,
    broker: &str,
    brokers: &Names,
    problems: &mut Vec<Problem>,
) {
    let names: Vec<&str> = brokers.0.iter().map(String::as_str).collect();
    if names.contains(&broker) {
        return;
    }
    let shown = redact(broker);
    let what = format!("`{}` is {shown:?}, and no broker has that name", section.key("broker"));
    let help = match nearest(broker, &names) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "add a [[broker]] with that name".to_owned(),
        None => format!("configured brokers: {}", names.join(", ")),
    };
    problems.push(Problem::new("PH-2008", what).at(&section.origin("broker")).help(help));
}

/// Checks that a publish call ends well before the lease: the relay renews the lease after a third
/// of it.
pub(crate) fn timeout_below_lease(
    section: &Section<'_>,
    publish_timeout: Duration,
    lease: Duration,
    problems: &mut Vec<Problem>,
) {
    if publish_timeout <= lease / 2 {
        return;
    }
    let what = format!(
        "`{}` is {}, more than half of `relay.lease`, which is {}",
        section.key("publish_timeout"),
        publish_timeout.show(),
        lease.show()
    );
    let help = "a publish call must end well before its lease: increase the lease, or decrease the \
                timeout";
    let origin = section.origin("publish_timeout");
    problems.push(Problem::new("PH-2009", what).at(&origin).help(help));
}

/// Checks that an adapter serves the scheme of the URL.
pub(crate) fn scheme(
    key: &str,
    url: &SecretUrl,
    known: &[&str],
    origin: &Origin,
    problems: &mut Vec<Problem>,
) -> bool {
    let scheme = url.scheme();
    if known.contains(&scheme) {
        return true;
    }
    let what = format!("`{key}` has the unknown scheme {scheme:?}");
    let mut help = format!("supported: {}", known.join(", "));
    if let Some(near) = nearest(scheme, known) {
        help = format!("did you mean `{near}`? {help}");
    }
    problems.push(Problem::new("PH-2010", what).at(origin).help(help));
    false
}

/// The section's `url`, or the URL in its `url_file`.
pub(crate) fn url(section: &mut Section<'_>, reading: &mut Reading) -> Option<SecretUrl> {
    let url: Option<SecretUrl> = section.get("url", reading);
    let path: Option<PathBuf> = section.get("url_file", reading);
    let file_key = section.key("url_file");
    let origin = section.origin("url_file");
    if url.is_some() && path.is_some() {
        let (key, place) = (section.key("url"), section.origin("url"));
        let what = format!("both `{file_key}` and `{key}` ({place}) are set");
        let problem = Problem::new("PH-2009", what).at(&origin);
        reading.problems.push(problem.help("keep one of the two"));
    }
    let from_file =
        path.and_then(|path| secret_file(&file_key, &path, &origin, &mut reading.problems));
    url.or(from_file)
}

/// The section's `secrets`, or the lines of its `secrets_file`.
pub(crate) fn secrets(section: &mut Section<'_>, reading: &mut Reading) -> Vec<Secret> {
    let secrets: Option<Secrets> = section.get("secrets", reading);
    let path: Option<PathBuf> = section.get("secrets_file", reading);
    let (key, origin) = (section.key("secrets_file"), section.origin("secrets_file"));
    let Some(path) = path else {
        return secrets.map(|secrets| secrets.0).unwrap_or_default();
    };
    if secrets.is_some() {
        let what = format!("both `{key}` and `{}` are set", section.key("secrets"));
        let problem = Problem::new("PH-2009", what).at(&origin);
        reading.problems.push(problem.help("keep one of the two"));
    }
    let read = fs::read_to_string(&path).map_err(|error| error.to_string()).and_then(|text| {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines.map(Secret::parse).collect::<Result<_, _>>().map_err(|invalid| invalid.rule)
    });
    read.unwrap_or_else(|what| {
        let what = format!("`{key}` is {:?}: {what}", path.display().to_string());
        let problem = Problem::new("PH-2011", what).at(&origin);
        reading.problems.push(problem.help("the file holds one secret per line"));
        Vec::new()
    })
}

/// Reads a URL from its file.
fn secret_file(
    key: &str,
    path: &Path,
    origin: &Origin,
    problems: &mut Vec<Problem>,
) -> Option<SecretUrl> {
    let what = match fs::read_to_string(path) {
        Ok(text) => match SecretUrl::parse(&Value::Text(text.trim().to_owned())) {
            Ok(url) => return Some(url),
            Err(_) => "the file holds no URL".to_owned(),
        },
        Err(error) => error.to_string(),
    };
    let what = format!("`{key}` is {:?}: {what}", path.display().to_string());
    let help = "the file must hold the URL and nothing else; relative paths start in the working \
                directory";
    problems.push(Problem::new("PH-2011", what).at(origin).help(help));
    None
}

/// Notes about settings that are valid but probably unintended.
pub(crate) fn notes(config: &Config) -> Vec<String> {
    let mut notes = Vec::new();
    for broker in &config.brokers {
        if !config.routes.iter().any(|route| route.broker == broker.name) {
            notes.push(format!("no route uses the broker `{}`", broker.name));
        }
    }
    notes
}

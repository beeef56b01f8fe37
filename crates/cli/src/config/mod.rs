//! The configuration: one TOML file, `POSTHASTE_SECTION__KEY` variables over it, flags over those.
//!
//! Parse, fill in defaults, validate: once, here. Commands see only valid, typed values; whatever
//! is wrong is reported all at once as [`Problems`]. The reference for users is the doc comment of
//! each field.

mod brokers;
mod problem;
mod read;
mod sections;
mod setting;
mod show;
mod sources;
mod validate;
mod words;

use std::{
    ffi::OsString,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use posthaste_core::{RetryPolicy, RouteSpec};

use crate::brokers::Adapter;

pub(crate) use problem::{Problem, Problems, redact_url, secrets};
pub(crate) use read::{Shown, nearest};
pub(crate) use setting::SecretUrl;
pub(crate) use show::show;
pub(crate) use words::{LogFormat, LogLevel};

use read::Reading;
use sources::{Node, Origin, Table, Value};

/// The file that is read when nobody names one.
pub(crate) const FILE_DEFAULT: &str = "posthaste.toml";

/// What a command cannot work without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing.
    Nothing,
    /// A store.
    Store,
    /// A store, and at least one route.
    Relay,
}

/// Where configuration is looked for.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// The file; `None` is [`FILE_DEFAULT`] if it exists.
    pub(crate) file: Option<PathBuf>,
    /// The store, by flag.
    pub(crate) store: Option<String>,
    /// The environment.
    pub(crate) variables: Vec<(OsString, OsString)>,
}

/// A valid configuration.
#[derive(Debug)]
pub(crate) struct Config {
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    /// `[store]` `url` or `url_file`: the database; its scheme chooses the driver.
    pub(crate) store: Option<SecretUrl>,
    /// `[relay]`: how the relay works, and `[retention]`: how long what is finished stays.
    pub(crate) relay: posthaste_relay::Settings,
    /// `[http]` `listen`: where metrics and health are served; `None` is nowhere.
    pub(crate) listen: Option<Listen>,
    /// `[log]` `format`.
    pub(crate) log_format: LogFormat,
    /// `[log]` `level`.
    pub(crate) log_level: LogLevel,
    /// `[[broker]]`.
    pub(crate) brokers: Vec<BrokerConfig>,
    /// `[[route]]`.
    pub(crate) routes: Vec<RouteConfig>,
    /// Every effective value and its source, for `config show`.
    pub(crate) shown: Vec<Shown>,
    /// Things worth a word that are not wrong.
    pub(crate) notes: Vec<String>,
}

/// Where metrics and health are served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listen {
    /// The address.
    pub(crate) address: SocketAddr,
    /// Whether someone named it; else it is the default, and another port will do.
    pub(crate) is_named: bool,
}

/// A broker.
#[derive(Debug)]
pub(crate) struct BrokerConfig {
    /// What routes call it.
    pub(crate) name: String,
    /// Chosen by the scheme of `url`, with its settings.
    pub(crate) adapter: Adapter,
}

/// A route.
#[derive(Debug)]
pub(crate) struct RouteConfig {
    /// Name, topics and shards.
    pub(crate) spec: RouteSpec,
    /// The name of its broker; one of [`Config::brokers`].
    pub(crate) broker: String,
    /// `[route.retry]`.
    pub(crate) retry: RetryPolicy,
    /// Longest wait for a broker's answer; shorter than the lease.
    pub(crate) publish_timeout: Duration,
    /// Most messages given to the broker and not answered yet, per shard.
    pub(crate) in_flight_max: usize,
}

/// Reads, merges and validates.
///
/// # Errors
/// [`Problems`], all of them.
pub(crate) fn load(inputs: &Inputs, needs: Needs) -> Result<Config, Problems> {
    let mut reading = Reading::default();
    let (file, mut root) = read_file(inputs.file.as_deref(), &mut reading.problems);
    sources::merge_env(&mut root, inputs.variables.iter().cloned(), &mut reading.problems);
    if let Some(url) = &inputs.store {
        let origin = Origin::Flag("--store");
        let node =
            Node { value: Value::Text(url.clone()), origin: origin.clone(), key_origin: origin };
        if let Err(what) = sources::set(&mut root, &["store".to_owned(), "url".to_owned()], node) {
            reading.problems.push(Problem::new("PH-2013", what));
        }
    }
    // A file that is not TOML loses keys, and what is then missing would only mislead.
    let is_readable = reading.problems.is_empty();
    let mut config = sections::read_all(file, &root, &mut reading);
    if is_readable {
        validate::needs(&root, needs, &mut reading.problems);
    }
    let is_key = |section: &str, key: &str| {
        reading.shown.iter().any(|shown| shown.section == section && shown.key == key)
    };
    let misspelt = sources::misspelt(&inputs.variables, is_key);
    if reading.problems.is_empty() {
        config.shown = reading.shown;
        config.notes = validate::notes(&config);
        config.notes.extend(misspelt.iter().map(|(name, what)| format!("{name} {what}")));
        Ok(config)
    } else {
        // What was meant by them may be what is missing.
        let problem = |(name, what): &(String, String)| {
            Problem::new("PH-2013", format!("{name} {what}")).at(&Origin::Env(name.clone()))
        };
        reading.problems.extend(misspelt.iter().map(problem));
        Err(Problems::new(reading.problems))
    }
}

fn read_file(named: Option<&Path>, problems: &mut Vec<Problem>) -> (Option<PathBuf>, Table) {
    let path = named.unwrap_or(Path::new(FILE_DEFAULT));
    if named.is_none() && !path.exists() {
        return (None, Table::new());
    }
    let table = match fs::read_to_string(path) {
        Ok(text) => sources::from_file(path, &text, problems),
        Err(error) => {
            let what = format!("cannot read {}: {error}", path.display());
            problems.push(Problem::new("PH-2001", what).help("name another with --config"));
            Table::new()
        }
    };
    (Some(path.to_owned()), table)
}

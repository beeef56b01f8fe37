//! The configuration: one TOML file, `POSTHASTE_SECTION__KEY` variables over it, flags over those.
//!
//! This module parses, fills in defaults and validates, once. Commands see only valid, typed
//! values; all problems are reported at once as [`Problems`].

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

/// The file that is read without `--config`.
pub(crate) const FILE_DEFAULT: &str = "posthaste.toml";

/// The settings that a command requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing.
    Nothing,
    /// A store.
    Store,
    /// A store, and at least one route.
    Relay,
}

/// The sources of the configuration.
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
    /// `[relay]` and `[retention]`: settings of the relay, and how long finished messages stay.
    pub(crate) relay: posthaste_relay::Settings,
    /// `[http]` `listen`: address of metrics and health checks; `None` serves none.
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
    /// Notes about settings that are valid but probably unintended.
    pub(crate) notes: Vec<String>,
}

/// The address of metrics and health checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listen {
    /// The address.
    pub(crate) address: SocketAddr,
    /// Whether the configuration names the address; otherwise it is the default, and another port
    /// may be used.
    pub(crate) is_named: bool,
}

/// A broker.
#[derive(Debug)]
pub(crate) struct BrokerConfig {
    /// The name by which routes refer to the broker.
    pub(crate) name: String,
    /// Chosen by the scheme of `url`, with its settings.
    pub(crate) adapter: Adapter,
}

/// A route.
#[derive(Debug)]
pub(crate) struct RouteConfig {
    /// Name, topics and shards.
    pub(crate) spec: RouteSpec,
    /// The name of the route's broker; one of [`Config::brokers`].
    pub(crate) broker: String,
    /// `[route.retry]`.
    pub(crate) retry: RetryPolicy,
    /// Longest wait for a broker's answer; shorter than the lease.
    pub(crate) publish_timeout: Duration,
    /// Most unanswered messages at the broker, per shard.
    pub(crate) in_flight_max: usize,
}

/// Reads, merges and validates the configuration.
///
/// # Errors
/// All problems of the configuration.
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
    // A file that is not valid TOML loses keys; reporting those as missing would mislead.
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
        // A misspelt variable may explain a missing setting.
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
            problems.push(Problem::new("PH-2001", what).help("pass another file with --config"));
            Table::new()
        }
    };
    (Some(path.to_owned()), table)
}

//! Reads each section of the file: its keys, their defaults and their bounds.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use posthaste_core::{Backoff, OnDead, Retention, RetryPolicy, RouteSpec, SHARDS_MAX};
use posthaste_relay::Route;

use super::{
    BrokerConfig, Config, Listen, LogFormat, LogLevel, Problem, RouteConfig, SecretUrl,
    brokers::read_broker,
    read::{Reading, Section},
    setting::{Address, ByteSize, OrOff, Setting, Topics},
    sources::{Origin, Table},
    validate::{self, Names},
    words::OnDeadWord,
};

/// The retention for `"off"`: practically for ever, and short enough for the arithmetic of every
/// database.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Reads all sections; problems go to `reading`, and the default replaces a wrong value.
pub(crate) fn read_all(file: Option<PathBuf>, root: &Table, reading: &mut Reading) -> Config {
    let mut root = Section::root(root);
    let store = read_store(root.section("store", reading), reading);
    let mut relay = read_relay(root.section("relay", reading), reading);
    relay.retention = read_retention(root.section("retention", reading), reading);
    let listen = read_http(root.section("http", reading), reading);
    let mut log = root.section("log", reading);
    let log_format = log.or("format", LogFormat::Text, reading);
    let log_level = log.or("level", LogLevel::Info, reading);
    log.finish(reading);
    // Routes may name a broker whose own section has problems.
    let mut broker_names = Names::default();
    let brokers: Vec<BrokerConfig> = root
        .sections("broker", reading)
        .into_iter()
        .filter_map(|section| read_broker(section, &mut broker_names, reading))
        .collect();
    let sections = root.sections("route", reading);
    let mut names = Names::default();
    let routes = sections
        .into_iter()
        .filter_map(|section| read_route(section, &mut names, &broker_names, relay.lease, reading))
        .collect();
    root.finish(reading);
    Config {
        file,
        store,
        relay,
        listen,
        log_format,
        log_level,
        brokers,
        routes,
        shown: Vec::new(),
        notes: Vec::new(),
    }
}

fn read_store(mut section: Section<'_>, reading: &mut Reading) -> Option<SecretUrl> {
    let url = validate::url(&mut section, reading);
    let place = ["url", "url_file"].map(|key| section.origin(key));
    let origin = place.iter().find(|origin| **origin != Origin::Default);
    if let (Some(url), Some(origin)) = (&url, origin) {
        let schemes = crate::stores::SCHEMES;
        if validate::scheme("store.url", url, schemes, origin, &mut reading.problems)
            && let Err(invalid) = crate::stores::check_url(url)
        {
            let what = format!("`store.url` is {:?}: it {}", invalid.value, invalid.rule);
            reading.problems.push(Problem::new("PH-2015", what).at(origin));
        }
    }
    section.finish(reading);
    url
}

fn read_relay(mut section: Section<'_>, reading: &mut Reading) -> posthaste_relay::Settings {
    let default = posthaste_relay::Settings::default();
    let seconds = Duration::from_secs;
    let settings = posthaste_relay::Settings {
        name: section.or("name", host_name(), reading),
        poll: {
            let bounds = Duration::from_millis(1)..=seconds(60);
            section.within("poll", default.poll, bounds, reading)
        },
        lease: section.within("lease", default.lease, seconds(1)..=seconds(3600), reading),
        batch: section.within("batch", default.batch, 1..=100_000, reading),
        window_messages_max: read_count(
            &mut section,
            "window_messages",
            default.window_messages_max,
            1_000_000,
            reading,
        ),
        window_bytes_max: {
            let default = ByteSize(default.window_bytes_max as u64);
            let bounds = ByteSize(64 << 10)..=ByteSize(16 << 30);
            let size = section.within("window_bytes", default, bounds, reading);
            usize::try_from(size.0).unwrap_or(usize::MAX)
        },
        drain: section.within("drain", default.drain, Duration::ZERO..=seconds(3600), reading),
        ..default
    };
    let name = Some(&settings.name);
    Names::default().check(&section, name, &mut reading.problems);
    section.finish(reading);
    settings
}

fn read_count(
    section: &mut Section<'_>,
    key: &'static str,
    default: usize,
    max: u32,
    reading: &mut Reading,
) -> usize {
    let default = u32::try_from(default).unwrap_or(max);
    section.within(key, default, 1..=max, reading) as usize
}

fn read_retention(mut section: Section<'_>, reading: &mut Reading) -> Retention {
    let default = posthaste_relay::Settings::default().retention;
    let mut period = |key, default| {
        let OrOff(period) = section.or(key, OrOff(Some(default)), reading);
        period.unwrap_or(FOREVER).min(FOREVER)
    };
    let retention = Retention {
        delivered: period("delivered", default.delivered),
        discarded: period("discarded", default.discarded),
    };
    section.finish(reading);
    retention
}

fn read_http(mut section: Section<'_>, reading: &mut Reading) -> Option<Listen> {
    let default = Address(Some(SocketAddr::from(([127, 0, 0, 1], 9464))));
    let Address(address) = section.or("listen", default, reading);
    let allow_remote = section.or("allow_remote", false, reading);
    if let Some(address) = address
        && !address.ip().is_loopback()
        && !allow_remote
    {
        let what = format!("`http.listen` is {address}, which other machines can reach");
        let help = "listen on 127.0.0.1, or allow remote access:\n[http]\nallow_remote = true";
        let problem = Problem::new("PH-2012", what).at(&section.origin("listen"));
        reading.problems.push(problem.help(help));
    }
    let is_named = section.origin("listen") != Origin::Default;
    section.finish(reading);
    address.map(|address| Listen { address, is_named })
}

fn read_route(
    mut section: Section<'_>,
    names: &mut Names,
    brokers: &Names,
    lease: Duration,
    reading: &mut Reading,
) -> Option<RouteConfig> {
    let millis = Duration::from_millis;
    let name =
        section.required("name", "the store keeps the route's progress under its name", reading);
    names.check(&section, name.as_ref(), &mut reading.problems);
    let topics: Option<Topics> = section.required("topics", "[\"*\"] matches all topics", reading);
    let broker = match brokers.only() {
        Some(only) => Some(section.or("broker", only.clone(), reading)),
        None => section.required("broker", "give the name of a [[broker]]", reading),
    };
    if let Some(broker) = &broker {
        validate::reference(&section, broker, brokers, &mut reading.problems);
    }
    let shards = section.within("shards", 1, 1..=u32::from(SHARDS_MAX), reading);
    let publish_timeout = Route::PUBLISH_TIMEOUT_DEFAULT.min(lease / 2);
    let bounds = millis(10)..=Duration::from_secs(3600);
    let publish_timeout = section.within("publish_timeout", publish_timeout, bounds, reading);
    validate::timeout_below_lease(&section, publish_timeout, lease, &mut reading.problems);
    let in_flight = Route::IN_FLIGHT_MAX_DEFAULT;
    let in_flight_max = read_count(&mut section, "in_flight", in_flight, 100_000, reading);
    let retry = read_retry(section.section("retry", reading), reading);
    section.finish(reading);
    Some(RouteConfig {
        spec: RouteSpec {
            name: name?,
            topics: topics?.0,
            shards: u16::try_from(shards).unwrap_or(1),
        },
        broker: broker?,
        retry,
        publish_timeout,
        in_flight_max,
    })
}

fn read_retry(mut section: Section<'_>, reading: &mut Reading) -> RetryPolicy {
    let default = RetryPolicy::default();
    let bounds = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
    let initial = section.within("initial", default.backoff.initial, bounds.clone(), reading);
    let max = section.within("max", default.backoff.max.max(initial), bounds, reading);
    if initial > max {
        let what = format!(
            "`{}` is {}, longer than `{}`, which is {}",
            section.key("initial"),
            initial.show(),
            section.key("max"),
            max.show()
        );
        let problem = Problem::new("PH-2009", what).at(&section.origin("initial"));
        reading.problems.push(problem.help("the first delay must not exceed the longest"));
    }
    let attempts_max = section.within("attempts", default.attempts_max, 1..=100_000, reading);
    let OrOff(age_max) = section.or("age", OrOff(default.age_max), reading);
    let on_dead = match section.or("on_dead", OnDeadWord::Continue, reading) {
        OnDeadWord::Continue => OnDead::Continue,
        OnDeadWord::Block => OnDead::Block,
    };
    section.finish(reading);
    RetryPolicy { backoff: Backoff { initial, max }, attempts_max, age_max, on_dead }
}

/// The name of the machine, as the default name of the relay.
fn host_name() -> String {
    let name = std::env::var("HOSTNAME").ok();
    let name = name.or_else(|| fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let mut name = name.unwrap_or_default();
    name.retain(validate::is_plain);
    name.truncate(validate::NAME_BYTES_MAX);
    if name.is_empty() { "relay".to_owned() } else { name }
}

//! The configuration as users meet it: every problem at once, sources, secrets.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use support::{Bundle, EVERYTHING, end};

/// Everything that can be wrong in one file.
const HOPELESS: &str = r#"[store]
url = "postgress://app:hunter2@db/shop"
url_file = "/nonexistent/secret"

[relay]
pol = "500ms"
poll = 500
lease = "3 lightyears"
batch = 0
window_bytes = "16"

[retention]
delivered = "off"
discarded = true

[http]
listen = "0.0.0.0:9464"

[logs]
format = "json"

[log]
format = "yaml"

[[broker]]
name = "bus"
url = "nul://u:hunter2@k1:9092"

[[broker]]
name = "bus"
url = "stdot:"

[[route]]
name = "orders"
topics = []
broker = "buss"
publish_timeout = "45s"
shards = 1000
[route.retry]
initial = "1h"
max = "1m"
on_dead = "ignore"

[[route]]
name = "a b"
topics = ["a", 3]
brokers = "bus"
"#;

/// What is said about it, in the order of the file, what is not in the file last.
const HOPELESS_PROBLEMS: &str = r#"error[PH-2010]: `store.url` has the unknown scheme "postgress"
  --> posthaste.toml:2:7
  = help: did you mean `postgres`? supported: postgres, postgresql, mysql, mariadb, sqlite

error[PH-2009]: both `store.url_file` and `store.url` (posthaste.toml:2:7) are set
  --> posthaste.toml:3:12
  = help: keep one of the two

error[PH-2011]: `store.url_file` is "/nonexistent/secret": No such file or directory (os error 2)
  --> posthaste.toml:3:12
  = help: the file must hold the URL and nothing else; relative paths start in the working directory

error[PH-2002]: unknown key `relay.pol`
  --> posthaste.toml:6:1
  = help: did you mean `poll`?

error[PH-2003]: `relay.poll` is the number 500
  --> posthaste.toml:7:8
  = help: give a duration with its unit, such as "500ms", "30s" or "24h"

error[PH-2004]: `relay.lease` is "3 lightyears": unknown time unit "lightyears", supported units: ns, us/µs, ms, sec, min, hours, days, weeks, months, years (and few variations)
  --> posthaste.toml:8:9
  = help: give a duration with its unit, such as "500ms", "30s" or "24h"

error[PH-2005]: `relay.batch` is 0
  --> posthaste.toml:9:9
  = help: give a value from 1 to 100000

error[PH-2004]: `relay.window_bytes` is "16": the unit is missing
  --> posthaste.toml:10:16
  = help: give a size with its unit, such as "16MiB" or "64KiB"

error[PH-2003]: `retention.discarded` is true
  --> posthaste.toml:14:13
  = help: give a duration with its unit, such as "24h", or "off"

error[PH-2012]: `http.listen` is 0.0.0.0:9464, which other machines can reach
  --> posthaste.toml:17:10
  = help: listen on 127.0.0.1, or allow remote access:
          [http]
          allow_remote = true

error[PH-2002]: unknown key `logs`
  --> posthaste.toml:19:2
  = help: did you mean `log`?

error[PH-2004]: `log.format` is "yaml": unknown value
  --> posthaste.toml:23:10
  = help: give "text" or "json"

error[PH-2010]: `broker[0].url` has the unknown scheme "nul"
  --> posthaste.toml:27:7
  = help: did you mean `null`? supported: stdout, null, memory, amqp, amqps, kafka, nats, tls, redis, rediss, mqtt, mqtts, http, https, tcp

error[PH-2007]: `broker[1].name` is "bus", a name that is already used
  --> posthaste.toml:30:8
  = help: names must be unique: rename one of the two

error[PH-2010]: `broker[1].url` has the unknown scheme "stdot"
  --> posthaste.toml:31:7
  = help: did you mean `stdout`? supported: stdout, null, memory, amqp, amqps, kafka, nats, tls, redis, rediss, mqtt, mqtts, http, https, tcp

error[PH-2004]: `route[0].topics` is a list: an empty list matches no topic
  --> posthaste.toml:35:10
  = help: give a list of topic patterns, such as ["orders.*", "users"]

error[PH-2008]: `route[0].broker` is "buss", and no broker has that name
  --> posthaste.toml:36:10
  = help: did you mean `bus`?

error[PH-2009]: `route[0].publish_timeout` is "45s", more than half of `relay.lease`, which is "30s"
  --> posthaste.toml:37:19
  = help: a publish call must end well before its lease: increase the lease, or decrease the timeout

error[PH-2005]: `route[0].shards` is 1000
  --> posthaste.toml:38:10
  = help: give a value from 1 to 256

error[PH-2009]: `route[0].retry.initial` is "1h", longer than `route[0].retry.max`, which is "1m"
  --> posthaste.toml:40:11
  = help: the first delay must not exceed the longest

error[PH-2004]: `route[0].retry.on_dead` is "ignore": unknown value
  --> posthaste.toml:42:11
  = help: give "continue" or "block"

error[PH-2004]: `route[1].name` is "a b"
  --> posthaste.toml:45:8
  = help: give 1 to 64 letters, digits, `.`, `_` or `-`: names are labels of metrics

error[PH-2004]: `route[1].topics` is a list: every entry must be a string
  --> posthaste.toml:46:10
  = help: give a list of topic patterns, such as ["orders.*", "users"]

error[PH-2002]: unknown key `route[1].brokers`
  --> posthaste.toml:47:1
  = help: did you mean `broker`?

error[PH-2013]: index 7 leaves a gap: `route` has 2 entries so far
  --> environment variable POSTHASTE_ROUTE__7__NAME

error[PH-2004]: `relay.drain` is "abc": expected number at 0
  --> environment variable POSTHASTE_RELAY__DRAIN
  = help: give a duration with its unit, such as "500ms", "30s" or "24h"

26 problems in the configuration
"#;

#[test]
fn every_problem_of_a_hopeless_file_is_reported_at_once() {
    let t = Bundle::new(HOPELESS);
    for arguments in [&["config", "check"][..], &["config", "show"], &["relay"], &["status"]] {
        let ended = end(t
            .command(arguments)
            .env("POSTHASTE_ROUTE__7__NAME", "x")
            .env("POSTHASTE_RELAY__DRAIN", "abc"));
        assert_eq!(ended.code, 78);
        assert_eq!(ended.err, HOPELESS_PROBLEMS, "{arguments:?}");
        assert_eq!(ended.out, "");
    }
}

#[test]
fn no_file_and_no_routes_say_what_is_the_least() {
    let t = Bundle::new("");
    let ended = t.run(&["relay"]);
    assert_eq!(ended.code, 78);
    assert!(ended.err.contains("no store is configured"), "{ended:#?}");
    assert!(ended.err.contains("no route is configured"), "{ended:#?}");
    assert!(ended.err.contains("[[route]]"), "{ended:#?}");
    let ended = t.run(&["--config", "missing.toml", "config", "check"]);
    assert_eq!(ended.code, 78);
    assert!(ended.err.contains("cannot read missing.toml"), "{ended:#?}");
}

#[test]
fn show_says_where_each_value_comes_from() {
    let t = Bundle::new(EVERYTHING);
    t.write("secret", "sqlite:other.db\n");
    let shown = end(t
        .command(&["config", "show"])
        .env("POSTHASTE_STORE__URL_FILE", "secret")
        .env("POSTHASTE_RELAY__LEASE", "1m")
        .env("POSTHASTE_RELAY__DRAIN", "")
        .env("POSTHASTE_ROUTE__0__TOPICS", "a, b"))
    .expect(0);
    for line in [
        "url_file = \"secret\"                         # environment variable POSTHASTE_STORE__URL_FILE",
        "poll = \"20ms\"                               # posthaste.toml:7:8",
        "lease = \"1m\"                                # environment variable POSTHASTE_RELAY__LEASE",
        "drain = \"20s\"                               # default",
        "topics = [\"a\", \"b\"]                         # environment variable POSTHASTE_ROUTE__0__TOPICS",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    let flagged = t.run(&["config", "show", "--store", "sqlite:flag.db"]).expect(0);
    assert!(flagged.contains("\"sqlite:flag.db\""), "{flagged}");
    assert!(flagged.contains("# flag --store"), "{flagged}");
}

#[test]
fn what_show_prints_is_a_configuration() {
    let t = Bundle::new(EVERYTHING);
    let shown = t.run(&["config", "show"]).expect(0);
    t.write("shown.toml", &shown);
    t.run(&["--config", "shown.toml", "config", "check"]).expect(0);
    let again = t.run(&["--config", "shown.toml", "config", "show"]).expect(0);
    let values = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.split("  #").next().unwrap_or_default());
        lines.map(|line| line.trim().to_owned()).collect()
    };
    assert_eq!(values(&shown), values(&again));
}

fn with_store(url: &str) -> Bundle {
    Bundle::new(&EVERYTHING.replace("sqlite:outbox.db", url))
}

/// The driver would find these out when it connects, or never.
#[test]
fn a_store_url_that_cannot_work_is_refused_by_its_part() {
    for (url, shown, rule) in [
        (
            "postgres://app:hunter2@db/shop?sslmode=on",
            "\"…?sslmode=on\"",
            "must have `sslmode` as one of disable, allow, prefer, require, verify-ca, verify-full",
        ),
        ("postgres://app@db/shop?sslmod=disable", "…?sslmod=…", "did you mean `sslmode`?"),
        ("postgres://app@a:1,b:2/shop", "postgres://…", "names several hosts (a:1, b:2)"),
        ("postgres://app:1#hunter2@db/shop", "postgres://…", "write `#` as %23"),
        ("postgres://app:x/hunter2@db/shop", "postgres://…", "write `/` as %2F"),
        (
            "postgres://db/shop?target_session_attrs=prefer-standby",
            "…?target_session_attrs=prefer-standby",
            "must have `target_session_attrs` as one of read-write, primary, any",
        ),
        ("mysql://app@db/shop?ssl-mode=on", "…?ssl-mode=on", "one of disabled, preferred"),
        ("mysql://app@db/shop?tls=true", "…?tls=…", "unknown parameter `tls`"),
        ("mysql://app:1#hunter2@db/shop", "mysql://…", "write `#` as %23"),
        ("sqlite:outbox.db?mode=readonly", "…?mode=readonly", "one of ro, rw, rwc, memory"),
    ] {
        let t = with_store(url);
        for arguments in [&["config", "check"][..], &["relay"], &["status"], &["migrate"]] {
            let ended = t.run(arguments);
            assert_eq!(ended.code, 78, "{arguments:?} {url}: {ended:#?}");
            assert!(ended.err.contains("error[PH-2015]: `store.url` is "), "{ended:#?}");
            assert!(ended.err.contains("--> posthaste.toml:3:7"), "{ended:#?}");
            assert!(ended.err.contains(shown) && ended.err.contains(rule), "{url}: {ended:#?}");
        }
        let doctor = t.run(&["doctor"]);
        assert!(doctor.out.contains("PH-2015") && doctor.out.contains(rule), "{doctor:#?}");
        let flagged = Bundle::new(EVERYTHING).run(&["config", "check", "--store", url]);
        assert!(flagged.err.contains("--> flag --store"), "{flagged:#?}");
    }
    with_store("postgres://app:p%23@db/shop?sslmode=require&target_session_attrs=read-write")
        .run(&["config", "check"])
        .expect(0);
}

/// The variable that is misspelt is what is missing, so the hint comes with the error.
#[test]
fn an_underscore_too_few_is_noticed_where_it_is_the_only_setting() {
    let t = Bundle::new("");
    for arguments in [&["status"][..], &["relay"], &["migrate"], &["config", "check"]] {
        let ended = end(t.command(arguments).env("POSTHASTE_STORE_URL", "sqlite:outbox.db"));
        assert!(ended.err.contains("no store is configured"), "{ended:#?}");
        let hint = "error[PH-2013]: POSTHASTE_STORE_URL is not read: two underscores join the \
                    parts of a name, POSTHASTE_STORE__URL";
        assert!(ended.err.contains(hint), "{ended:#?}");
        ended.expect(78);
    }
    let doctor = end(t.command(&["doctor"]).env("POSTHASTE_STORE_URL", "sqlite:outbox.db"));
    assert!(doctor.out.contains("POSTHASTE_STORE__URL"), "{doctor:#?}");
    let empty = end(t.command(&["status"]).env("POSTHASTE_STORE_URL", ""));
    assert!(!empty.err.contains("two underscores"), "{empty:#?}");
}

#[test]
fn other_settings_with_an_underscore_too_few_are_noticed_too() {
    let t = Bundle::new(EVERYTHING);
    let variables = [("POSTHASTE_LOG_LEVEL", "debug"), ("POSTHASTE_ROUTE_0_NAME", "x")];
    let ended = end(t.command(&["config", "check"]).envs(variables));
    for right in ["POSTHASTE_LOG__LEVEL", "POSTHASTE_ROUTE__0__NAME"] {
        assert!(ended.err.contains(&format!("parts of a name, {right}\n")), "{ended:#?}");
    }
    ended.expect(0);
}

/// Passwords are put wherever a URL can be, right or wrong; no command may print one.
#[test]
fn no_output_holds_a_password() {
    let url = "postgres://app:hunter2@127.0.0.1:1/shop";
    let good = EVERYTHING.replace("sqlite:outbox.db", url);
    let configs = [
        good.clone(),
        HOPELESS.to_owned(),
        good.replace("stdout:", "stdout://u:hunter2@h"),
        good.replace("tester", url),
        good.replace("\"20ms\"", &format!("\"{url}\"")),
        good.replace("127.0.0.1:0", url),
        good.replace("[\"*\"]", &format!("{{ a = \"{url}\" }}")),
        good.replace(url, "postgres//app:hunter2@127.0.0.1:1/shop"),
        good.replace(url, "postgres://app:x/hunter2@127.0.0.1:1/shop"),
        good.replace(url, "postgres://127.0.0.1:1/shop?password=hunter2"),
        good.replace(&format!("\"{url}\""), url),
        format!("{good}\n[store]\nurl = \"{url}\"\n"),
    ];
    let stores = [
        "postgres://app:1#hunter2@127.0.0.1:1/shop",
        "postgres://app:x?hunter2@127.0.0.1:1/shop",
        "postgres://app:hunter2@127.0.0.1:1,127.0.0.1:2/shop",
        "postgres://app:hunter2@127.0.0.1:1/shop?sslmode=on",
        "postgres://127.0.0.1:1/shop?passwrd=hunter2",
        "postgres://127.0.0.1:1/shop?hunter2",
        "postgres://app:hunter2@127.0.0.1:1/shop#hunter2",
        "mysql://app:1#hunter2@127.0.0.1:1/shop",
        "mysql://app:hunter2@127.0.0.1:1/shop?ssl-mode=on",
        "mysql://app:hunter2@127.0.0.1:1",
        "sqlite:outbox.db?key=hunter2",
    ];
    let brokers = [
        "amqp://me:1#hunter2@127.0.0.1/x",
        "amqp://me:1/hunter2@127.0.0.1/x",
        "nats://me:1#hunter2@127.0.0.1",
        "nats://me:1?hunter2@127.0.0.1",
        "redis://me:1/hunter2@127.0.0.1/0",
        "redis://:hunter2@127.0.0.1:x/0",
        "mqtt://me:1#hunter2@127.0.0.1",
        "mqtt://127.0.0.1?password=hunter2",
        "http://me:1#hunter2@127.0.0.1/hook",
        "tcp://me:1#hunter2@127.0.0.1:1",
        "kafka://me:x?hunter2@127.0.0.1:1",
    ];
    let configs = configs
        .into_iter()
        .chain(stores.iter().map(|store| good.replace(url, store)))
        .chain(brokers.iter().map(|broker| good.replace("stdout:", broker)));
    for config in configs {
        let t = Bundle::new(&config);
        for arguments in [
            &["config", "show"][..],
            &["config", "show", "--json"],
            &["config", "check"],
            &["doctor"],
            &["doctor", "--json"],
            &["status"],
            &["relay", "--once"],
            &["migrate"],
        ] {
            let ended = t.run(arguments);
            let said = format!("{}{}", ended.out, ended.err);
            assert!(!said.contains("hunter2"), "{arguments:?}\n{config}\n{said}");
            assert!(!said.is_empty(), "{arguments:?}\n{config}");
        }
    }
}

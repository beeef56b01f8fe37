//! All tests, on real servers.

use std::{panic::resume_unwind, process::ExitCode, thread};

use anyhow::bail;
use posthaste_fixtures::{Durability, Kind, POSTGRES_URL, Postgres, Server, tools};

use crate::{cargo, exit_code, programs, succeeds};

/// Starts one server of each kind for the whole run, runs all tests, and stops them. With arguments,
/// they are those of `cargo test`.
pub(crate) fn run(extra: &[String]) -> anyhow::Result<ExitCode> {
    tools()?;
    let (postgres, servers) = start()?;
    print("PostgreSQL", postgres.url(), postgres.origin());
    for (kind, server) in &servers {
        print(kind.name(), server.url(), server.origin());
    }
    let mut environment = vec![(POSTGRES_URL, postgres.url())];
    environment.extend(servers.iter().map(|(kind, server)| (kind.variable(), server.url())));
    let is_fine = if extra.is_empty() {
        let programs = programs::run(&environment)?;
        programs && cargo_test(&["--doc".to_owned()], &environment)?
    } else {
        cargo_test(extra, &environment)?
    };
    let checks = servers.iter().map(|(_, server)| server.ensure_running());
    let ended = checks.chain([postgres.ensure_running()]).filter_map(Result::err);
    let ended = ended.inspect(|error| println!("{error:#}")).count();
    Ok(exit_code(is_fine && ended == 0))
}

fn cargo_test(extra: &[String], environment: &[(&str, &str)]) -> anyhow::Result<bool> {
    succeeds(
        cargo()
            .args(["test", "--workspace", "--all-features"])
            .args(extra)
            .envs(environment.iter().copied()),
    )
}

/// All at once: it takes as long as the slowest. Every server that cannot be had is named.
fn start() -> anyhow::Result<(Postgres, Vec<(Kind, Server)>)> {
    let (postgres, started) = thread::scope(|scope| {
        let postgres = scope.spawn(|| Postgres::start(Durability::Fast));
        let servers = Kind::ALL.map(|kind| scope.spawn(move || (kind, Server::start(kind))));
        let servers =
            servers.map(|server| server.join().unwrap_or_else(|panic| resume_unwind(panic)));
        (postgres.join().unwrap_or_else(|panic| resume_unwind(panic)), servers)
    });
    let mut problems = Vec::new();
    let mut servers = Vec::new();
    for (kind, server) in started {
        match server {
            Ok(server) => servers.push((kind, server)),
            Err(error) => problems.push(format!("{error:#}")),
        }
    }
    match postgres {
        Ok(postgres) if problems.is_empty() => return Ok((postgres, servers)),
        Ok(_) => {}
        Err(error) => problems.push(format!("{error:#}")),
    }
    bail!("{}", problems.join("\n"))
}

fn print(name: &str, url: &str, origin: &str) {
    println!("{name} for tests: {} ({origin})", without_password(url));
}

/// A URL as it may be shown.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = &rest[..rest.find('/').unwrap_or(rest.len())];
    let Some((login, _)) = authority.rsplit_once('@') else { return url.to_owned() };
    let user = login.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}{}", &rest[login.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, expected) in [
            ("amqp://guest:guest@127.0.0.1:5672", "amqp://guest@127.0.0.1:5672"),
            ("mysql://u:p@ss@h:1/db?a=b@c", "mysql://u@h:1/db?a=b@c"),
            ("nats://127.0.0.1:4222", "nats://127.0.0.1:4222"),
            ("postgres://postgres@h/db", "postgres://postgres@h/db"),
        ] {
            assert_eq!(without_password(url), expected);
        }
    }
}

//! `explain`: what an error code means. The catalogue is the one place that lists the codes of the
//! configuration; those of stores are `StoreErrorKind::code`.

use std::process::ExitCode;

use crate::{
    args::ExplainArgs,
    output::{Fault, NOT_FOUND, Terminal},
};

/// A code, what it means, and what to do.
type Entry = (&'static str, &'static str, &'static str);

const CATALOGUE: &[Entry] = &[
    (
        "PH-1001",
        "the database cannot be reached, timed out or is overloaded",
        "The relay retries by itself. Check the address, the server and the network: \
         `posthaste doctor`.",
    ),
    (
        "PH-1002",
        "another relay has taken the shard over",
        "Nothing: the relay stops serving it. If it happens often, lengthen `relay.lease`.",
    ),
    ("PH-1003", "the tables are not there", "Run `posthaste migrate`."),
    ("PH-1004", "the tables are older than this program", "Run `posthaste migrate`."),
    (
        "PH-1005",
        "the tables are newer than this program",
        "Run the program that made them, or a later one.",
    ),
    (
        "PH-1006",
        "the server does not accept writes",
        "Point `store.url` at the primary, or end the read-only mode.",
    ),
    (
        "PH-1007",
        "the data was restored from another server, where positions meant something else",
        "Run `posthaste migrate --adopt`: recent messages are sent again, none is lost.",
    ),
    (
        "PH-1008",
        "the database user may not do this",
        "Grant it; `posthaste doctor` says what is missing.",
    ),
    (
        "PH-1009",
        "the request is wrong as it stands",
        "The message says which value breaks which rule.",
    ),
    (
        "PH-1010",
        "something unexpected happened in the store",
        "The cause says what. If it stays, please report it.",
    ),
    (
        "PH-1011",
        "the log went back in time, or is another server's, since the lease was granted",
        "A standby was promoted, a backup restored or a file replaced. The relay drops what it holds \
         in memory and goes on from the position that this server has: nothing that commits there is \
         skipped. Compare with your business rows what the old server had and this one does not.",
    ),
    (
        "PH-1014",
        "the database rolled a transaction back before its commit; nothing of it is kept",
        "Return the errors of statements, or run a statement that may fail in a savepoint.",
    ),
    (
        "PH-2001",
        "the configuration file cannot be read or is not TOML",
        "Mend the line that is named; the path comes from --config.",
    ),
    ("PH-2002", "no setting has this name", "Use the nearest right name, or remove the key."),
    (
        "PH-2003",
        "the value has the wrong type",
        "Durations and sizes are strings with units: poll = \"500ms\", window_bytes = \"16MiB\".",
    ),
    ("PH-2004", "the value cannot be understood", "The message says what would be right."),
    ("PH-2005", "the value is out of bounds", "Choose one within the bounds that are named."),
    ("PH-2006", "something that is needed is not set", "Set it in the file or the environment."),
    ("PH-2007", "two things have the same name", "Rename one of them."),
    (
        "PH-2008",
        "a route names a broker that does not exist",
        "Add the [[broker]], or use another.",
    ),
    ("PH-2009", "two settings contradict each other", "Change one of the two."),
    ("PH-2010", "no adapter serves URLs of this scheme", "Use one of the schemes that are listed."),
    (
        "PH-2011",
        "the file that holds the URL cannot be read or holds none",
        "Check the path and its permissions; the file holds the URL and nothing else.",
    ),
    (
        "PH-2012",
        "metrics and health would be open to other machines",
        "Listen on 127.0.0.1, or set `http.allow_remote = true`.",
    ),
    (
        "PH-2013",
        "an environment variable leads to no setting",
        "Names are POSTHASTE_SECTION__KEY; entries of lists have their number: \
         POSTHASTE_ROUTE__0__TOPICS.",
    ),
    (
        "PH-2014",
        "the address to listen on cannot be had",
        "Another program has it, or it is not this machine's. Change `http.listen`.",
    ),
    (
        "PH-2015",
        "a URL breaks a rule of its database or broker, or a broker's setting one of its adapter",
        "The message names the part and the rule. In passwords `#`, `/`, `?` and `%` are written \
         %23, %2F, %3F and %25.",
    ),
    (
        "PH-3001",
        "a message carries no position, so a watermark cannot judge it",
        "Its sender is no Posthaste relay, or its wire form leaves the position out. Use id mode.",
    ),
    (
        "PH-3002",
        "a message did not come in an ordered lane, so a watermark cannot judge it",
        "Subscribe with `Sharing::Ordered`, or use id mode.",
    ),
    (
        "PH-3003",
        "a source sends from another log than the consumer knows",
        "It was restored from a backup or promoted, its route got other topics, or two routes or \
         outboxes of one source send the topic. Once that is clear: `posthaste inbox adopt`; what \
         it sends again takes effect again.",
    ),
    (
        "PH-3004",
        "a source hands out positions a second time, under the same log",
        "It was taken back to a backup without `posthaste migrate --adopt`. `posthaste inbox adopt \
         --again` goes on with it; what it sends again takes effect again.",
    ),
];

/// Runs it.
///
/// # Errors
/// When the code does not exist.
pub(crate) fn run(args: &ExplainArgs, terminal: &mut Terminal<'_>) -> anyhow::Result<ExitCode> {
    let Some(code) = &args.code else {
        for (code, meaning, _) in CATALOGUE {
            writeln!(terminal.out, "{code}  {meaning}")?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let code = code.trim_matches(['[', ']']).to_uppercase();
    let Some((code, meaning, what_to_do)) = CATALOGUE.iter().find(|entry| entry.0 == code) else {
        let fault = Fault::new(NOT_FOUND, format!("there is no code {code}"));
        return Err(fault.help("`posthaste explain` lists them").into());
    };
    writeln!(terminal.out, "{code}: {meaning}\n\n{what_to_do}")?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use posthaste_core::StoreErrorKind as Kind;

    use super::*;

    #[test]
    fn every_code_of_a_store_is_explained_once() {
        let kinds = [
            Kind::Unavailable,
            Kind::Fenced,
            Kind::SchemaMissing,
            Kind::SchemaTooOld,
            Kind::SchemaTooNew,
            Kind::ReadOnly,
            Kind::OtherServer,
            Kind::Denied,
            Kind::Refused,
            Kind::Internal,
            Kind::Rewound,
            Kind::NotCommitted,
        ];
        for kind in kinds {
            let entries = CATALOGUE.iter().filter(|entry| entry.0 == kind.code());
            assert_eq!(entries.count(), 1, "{}", kind.code());
        }
        assert!(CATALOGUE.is_sorted_by_key(|entry| entry.0));
    }
}

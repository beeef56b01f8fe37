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
        "Nothing: the relay stops serving the shard. If this happens often, increase `relay.lease`.",
    ),
    ("PH-1003", "the tables do not exist", "Run `posthaste migrate`."),
    ("PH-1004", "the tables are older than this program", "Run `posthaste migrate`."),
    (
        "PH-1005",
        "the tables are newer than this program",
        "Run the program version that migrated them, or a later one.",
    ),
    (
        "PH-1006",
        "the server does not accept writes",
        "Point `store.url` at the primary, or end the read-only mode.",
    ),
    (
        "PH-1007",
        "the data was restored from another server, whose positions are not valid here",
        "Run `posthaste migrate --adopt`: recent messages are sent again, none is lost.",
    ),
    (
        "PH-1008",
        "the database user may not do this",
        "Grant the privilege; `posthaste doctor` names the missing one.",
    ),
    ("PH-1009", "the request is invalid", "The message says which value breaks which rule."),
    (
        "PH-1010",
        "the store met an unexpected answer or damaged data",
        "The line `caused by` has the driver's text. If the error stays, please report it.",
    ),
    (
        "PH-1011",
        "since the lease was granted, the log went back in time or another server took its place",
        "A standby was promoted, a backup restored or a file replaced. The relay drops the messages \
         in its memory and goes on from the position that this server has: it skips no message that \
         commits there. Check which business rows of the old server this one does not have.",
    ),
    (
        "PH-1014",
        "the database rolled a transaction back before its commit and kept nothing of it",
        "Return the errors of statements, or run a statement that may fail in a savepoint.",
    ),
    (
        "PH-2001",
        "the configuration file cannot be read or is not TOML",
        "Fix the line that the message names; the path comes from --config.",
    ),
    ("PH-2002", "no setting has this name", "Use the suggested name, or remove the key."),
    (
        "PH-2003",
        "the value has the wrong type",
        "Durations and sizes are strings with units: poll = \"500ms\", window_bytes = \"16MiB\".",
    ),
    ("PH-2004", "the value cannot be parsed", "The message names the accepted form."),
    ("PH-2005", "the value is out of bounds", "Choose a value within the bounds in the message."),
    ("PH-2006", "a required setting is missing", "Set it in the file or the environment."),
    ("PH-2007", "two brokers or two routes have the same name", "Rename one of them."),
    (
        "PH-2008",
        "a route names a broker that does not exist",
        "Add the [[broker]], or use an existing one.",
    ),
    ("PH-2009", "two settings contradict each other", "Change one of the two."),
    ("PH-2010", "no adapter serves URLs of this scheme", "Use a scheme that the message lists."),
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
        "an environment variable matches no setting",
        "Names are POSTHASTE_SECTION__KEY; list entries are numbered: \
         POSTHASTE_ROUTE__0__TOPICS.",
    ),
    (
        "PH-2014",
        "the relay cannot listen on the address of `http.listen`",
        "Another program uses the port, or the address is not of this machine. Change `http.listen`.",
    ),
    (
        "PH-2015",
        "a URL breaks a rule of its database or broker, or a [[broker]] a rule of its adapter",
        "The message names the part and the rule. In passwords `#`, `/`, `?` and `%` are written \
         %23, %2F, %3F and %25.",
    ),
    (
        "PH-3001",
        "a message carries no position, so a watermark cannot tell whether it is new",
        "Its sender is no Posthaste relay, or its wire form leaves the position out. Use id mode.",
    ),
    (
        "PH-3002",
        "a message did not come in an ordered lane, so a watermark cannot tell whether it is new",
        "Subscribe with `Sharing::Ordered`, or use id mode.",
    ),
    (
        "PH-3003",
        "a source sends from a log that the consumer does not know",
        "The source was restored from a backup or promoted, the topics of its route changed, or two \
         routes or outboxes of one source send the topic. Once the cause is clear, run `posthaste \
         inbox adopt`: messages that the source sends again take effect again.",
    ),
    (
        "PH-3004",
        "a source hands out positions of the same log a second time",
        "The source was restored from a backup without `posthaste migrate --adopt`. `posthaste inbox \
         adopt --again` goes on with it: messages that the source sends again take effect again.",
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
        return Err(fault.help("`posthaste explain` lists all codes").into());
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

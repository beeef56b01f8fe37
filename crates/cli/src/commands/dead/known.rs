//! Checks names in filters: an unknown route, consumer or topic is an error, not an empty list.

use std::collections::BTreeSet;

use posthaste_core::{ParkedFilter, RouteStatus, TopicPattern};

use super::letters::{Letters, Meant};
use crate::{
    args::Filter,
    config::{Config, nearest},
    output::{Fault, USAGE},
};

/// Most names that are listed.
const NAMES_MAX: usize = 20;

/// Checks that the route, consumer and topic of the filter exist.
///
/// # Errors
/// A fault that names the unknown one and lists the known ones; any error of the store.
pub(crate) async fn check(filter: &Filter, store: &Letters, config: &Config) -> anyhow::Result<()> {
    let routes = store.store.status().await?.routes;
    if let Some(name) = &filter.route {
        let configured = config.routes.iter().map(|route| route.spec.name.as_str());
        let names = routes.iter().map(|route| route.name.as_str()).chain(configured);
        named("route", name, names.collect())?;
    }
    if let Some(name) = &filter.consumer {
        let consumers = store.inbox.inbox_status().await?;
        let names = consumers.iter().map(|consumer| consumer.consumer.as_str());
        named("consumer", name, names.collect())?;
    }
    if let Some(topic) = &filter.topic {
        topic_exists(topic, &routes, store).await?;
    }
    Ok(())
}

/// A topic exists if a route matches it, or if a parked message or a consumer's dead letter has it.
async fn topic_exists(topic: &str, routes: &[RouteStatus], store: &Letters) -> anyhow::Result<()> {
    let patterns: BTreeSet<&str> =
        routes.iter().flat_map(|route| &route.topics).map(String::as_str).collect();
    let is_routed = |pattern: &&str| {
        pattern.parse::<TopicPattern>().is_ok_and(|pattern| pattern.matches(topic))
    };
    if patterns.iter().any(is_routed) {
        return Ok(());
    }
    let letters = ParkedFilter { topic: Some(topic.to_owned()), ..ParkedFilter::default() };
    let retrying = ParkedFilter { is_retrying: true, ..letters.clone() };
    let (routes, consumers) = (Some(letters.clone()), Some(letters));
    let found = store.find(&Meant { routes, consumers }, 1).await?;
    let waiting = store.find(&Meant { routes: Some(retrying), consumers: None }, 1).await?;
    if found.is_empty() && waiting.is_empty() {
        return Err(unknown("topic", topic, &patterns).into());
    }
    Ok(())
}

fn named(what: &str, name: &str, names: BTreeSet<&str>) -> Result<(), Fault> {
    if names.contains(name) { Ok(()) } else { Err(unknown(what, name, &names)) }
}

fn unknown(what: &str, name: &str, names: &BTreeSet<&str>) -> Fault {
    let all: Vec<&str> = names.iter().copied().collect();
    let shown = all[..all.len().min(NAMES_MAX)].join(", ");
    let help = match (nearest(name, &all), all.len()) {
        (_, 0) => format!("no {what} is known"),
        (Some(near), _) => format!("did you mean {near:?}? known {what}s: {shown}"),
        (None, 1..=NAMES_MAX) => format!("known {what}s: {shown}"),
        (None, more) => format!("{more} {what}s are known, such as: {shown}"),
    };
    Fault::new(USAGE, format!("unknown {what} {name:?}")).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_told_with_the_nearest_and_all_there_are() {
        let names = BTreeSet::from(["orders", "users"]);
        assert!(named("route", "orders", names.clone()).is_ok());
        let fault = named("route", "order", names.clone()).unwrap_err();
        assert_eq!((fault.code, &*fault.message), (USAGE, "unknown route \"order\""));
        assert_eq!(fault.help.unwrap(), "did you mean \"orders\"? known routes: orders, users");
        let fault = named("route", "x", names).unwrap_err();
        assert_eq!(fault.help.unwrap(), "known routes: orders, users");
        let fault = named("consumer", "x", BTreeSet::new()).unwrap_err();
        assert_eq!(fault.help.unwrap(), "no consumer is known");
    }
}

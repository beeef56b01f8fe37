//! Cleaning up while routes and dead letters change: what waits for a route is never removed by a
//! decision that is older than the route.
//!
//! Each case runs a purge and the change at once, many times, the change a little later each time.
//! A purge may be refused meanwhile; a change may not.

use std::{future::Future, time::Duration};

use posthaste_core::{
    Grant, Message, Next, ParkedFilter, Retention, Settlement, Shard, StoreError, StoreErrorKind,
};

use super::{
    case::cases,
    kit::{Kit, ROUTE, Reader, keyed, keyless_many, messages, park, refused, texts},
};

cases! { "purge";
    Nothing: [
        route_registered_meanwhile_finds_what_waited_for_it,
        topics_added_meanwhile_bring_what_waited_for_them,
        resize_begun_and_completed_meanwhile_loses_nothing,
        letter_redriven_meanwhile_is_sent_again,
    ],
}

/// How often a purge and a change meet.
const ROUNDS: usize = 20;

/// Messages of each kind in a round.
const MESSAGES: usize = 5;

const NONE: Retention = Retention { delivered: Duration::ZERO, discarded: Duration::ZERO };

/// Cleans up while `change` happens, and begins `round` turns before it; then until nothing is left
/// to remove.
async fn meanwhile<T>(
    kit: &Kit,
    round: usize,
    change: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    kit.bed.advance(Duration::from_secs(1)).await;
    let later = async {
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        change.await
    };
    let (purged, changed) = tokio::join!(kit.store.purge(NONE, 1000), later);
    match purged {
        Err(error) if error.kind != StoreErrorKind::Unavailable => return Err(error),
        _ => {}
    }
    let changed = changed?;
    while kit.store.purge(NONE, 1000).await?.messages > 0 {}
    Ok(changed)
}

/// So many messages of a topic.
fn of_topic(topic: &str, count: usize) -> Vec<Message> {
    (0..count).map(|number| Message::from_bytes(topic, None, number.to_string())).collect()
}

/// The payloads of [`of_topic`].
fn expected() -> Vec<String> {
    (0..MESSAGES).map(|number| number.to_string()).collect()
}

/// Reads a shard to its end and writes that down; returns what was read.
async fn pass(kit: &Kit, grant: &Grant) -> Result<Vec<String>, StoreError> {
    let Grant { lease, position, .. } = grant;
    let mut reader = Reader::new(kit, &lease.route, lease.shard, position.clone());
    let read = texts(&messages(reader.read_all().await?));
    kit.settle_at(lease, reader.position()).await?;
    Ok(read)
}

/// Serves a whole route to the end of the log, and gives it back.
async fn serve(kit: &Kit, route: &str) -> Result<Vec<String>, StoreError> {
    let grant = kit.granted(route, Shard::WHOLE).await?;
    let read = pass(kit, &grant).await?;
    kit.store.release(&grant.lease).await?;
    Ok(read)
}

async fn route_registered_meanwhile_finds_what_waited_for_it(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["orders"], 1).await?;
    let mut routes = vec![ROUTE.to_owned()];
    for round in 0..ROUNDS {
        let topic = format!("waiting-{round}");
        kit.commit(&keyless_many(MESSAGES)).await?;
        kit.commit(&of_topic(&topic, MESSAGES)).await?;
        for route in &routes {
            serve(&kit, route).await?;
        }
        let topics = [topic.as_str()];
        meanwhile(&kit, round, kit.register(&topic, &topics, 1)).await?;
        let read = serve(&kit, &topic).await?;
        assert_eq!(read, expected(), "round {round}: what waited for the route is there");
        routes.push(topic);
    }
    Ok(())
}

async fn topics_added_meanwhile_bring_what_waited_for_them(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["orders"], 1).await?;
    let mut topics = vec!["orders".to_owned()];
    for round in 0..ROUNDS {
        topics.push(format!("waiting-{round}"));
        kit.commit(&keyless_many(MESSAGES)).await?;
        kit.commit(&of_topic(&topics[round + 1], MESSAGES)).await?;
        serve(&kit, ROUTE).await?;
        let wider: Vec<&str> = topics.iter().map(String::as_str).collect();
        meanwhile(&kit, round, kit.register(ROUTE, &wider, 1)).await?;
        let grant = kit.granted(ROUTE, Shard::WHOLE).await?;
        let mut due = kit.store.due(&grant.lease, 100, usize::MAX >> 1).await?.messages;
        due.sort_unstable_by_key(|parked| parked.seq);
        let came = texts(due.iter().map(|parked| &parked.message));
        assert_eq!(came, expected(), "round {round}: what waited for the topic is there");
        let delivered = due.iter().map(|parked| parked.seq).collect();
        let settlement = Settlement { delivered, ..Settlement::default() };
        kit.store.settle(&grant.lease, &settlement).await?;
        kit.store.release(&grant.lease).await?;
    }
    Ok(())
}

async fn resize_begun_and_completed_meanwhile_loses_nothing(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["orders"], 1).await?;
    for round in 0..ROUNDS {
        let (from, to) = if round % 2 == 0 { (1, 2) } else { (2, 1) };
        let shards = |of: u16| (0..of).map(move |index| Shard { index, of });
        kit.commit(&keyless_many(MESSAGES)).await?;
        meanwhile(&kit, round, kit.register(ROUTE, &["orders"], to)).await?;
        let mut read = Vec::new();
        for shard in shards(from) {
            let grant = kit.granted(ROUTE, shard).await?;
            let mut reader = Reader::new(&kit, ROUTE, shard, grant.position.clone());
            reader.fetch.until.clone_from(&grant.until);
            read.extend(texts(&messages(reader.read_all().await?)));
            let barrier = grant.until.as_ref().expect("the resize has begun");
            kit.settle_at(&grant.lease, barrier).await?;
            kit.store.release(&grant.lease).await?;
        }
        // Behind the barrier, so nobody has read it yet.
        kit.commit(&keyless_many(MESSAGES)).await?;
        let layout = meanwhile(&kit, round, kit.store.reshard(ROUTE)).await?;
        assert_eq!((layout.shards, layout.resizing_to), (to, None), "round {round}");
        for shard in shards(to) {
            let grant = kit.granted(ROUTE, shard).await?;
            read.extend(pass(&kit, &grant).await?);
            kit.store.release(&grant.lease).await?;
        }
        read.sort_unstable();
        let mut both = [expected(), expected()].concat();
        both.sort_unstable();
        assert_eq!(read, both, "round {round}");
    }
    Ok(())
}

async fn letter_redriven_meanwhile_is_sent_again(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    for round in 0..ROUNDS {
        let message = keyed("k", round);
        kit.commit(std::slice::from_ref(&message)).await?;
        let grant = kit.granted(ROUTE, Shard::WHOLE).await?;
        let mut reader = Reader::new(&kit, ROUTE, Shard::WHOLE, grant.position.clone());
        let seq = reader.read_all().await?[0].seq;
        let settlement = Settlement {
            position: Some(reader.position().clone()),
            park: vec![park(seq, &message, refused(1, Next::Dead))],
            ..Settlement::default()
        };
        kit.store.settle(&grant.lease, &settlement).await?;
        let this = ParkedFilter { ids: vec![message.id], ..ParkedFilter::default() };
        let redriven = meanwhile(&kit, round, kit.store.redrive(&this, "ada")).await?;
        assert_eq!(redriven, 1, "round {round}");
        let due = kit.store.due(&grant.lease, 10, usize::MAX >> 1).await?.messages;
        assert_eq!(due.len(), 1, "round {round}");
        assert_eq!(due[0].message, message, "round {round}: the whole message");
        let settlement = Settlement { delivered: vec![seq], ..Settlement::default() };
        kit.store.settle(&grant.lease, &settlement).await?;
        kit.store.release(&grant.lease).await?;
    }
    Ok(())
}

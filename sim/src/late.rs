//! Messages that wait for a route, and a route that is registered or widened for them while a purge
//! runs. Every message that waited must still exist afterwards.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use posthaste_core::{
    Claim, Fetch, Grant, Message, MessageId, Position, RelayId, Retention, RouteSpec, Settlement,
    Shard, Store,
};
use tokio::time::sleep;

use crate::{Fault, actors::often, stage::Stage, world::World};

/// Messages that wait for a topic's route.
const WAITING: usize = 3;

/// What a purge is asked to leave: nothing.
const NONE: Retention = Retention { delivered: Duration::ZERO, discarded: Duration::ZERO };

/// Adds routes and topics at intervals, until the faults are over.
pub(crate) async fn add_routes(stage: Arc<Stage>) {
    let world = Arc::clone(&stage.world);
    let mut late = Late { stage, routes: Vec::new(), topics_count: 0 };
    while !world.is_calm() {
        sleep(world.millis(300..2_000)).await;
        late.pass_all().await;
        if often(&world, Fault::Register) {
            late.register().await;
        }
        if !late.routes.is_empty() && often(&world, Fault::Widen) {
            late.widen().await;
        }
    }
}

/// Routes that were added, and are served here.
struct Late {
    stage: Arc<Stage>,
    routes: Vec<RouteSpec>,
    topics_count: usize,
}

impl Late {
    fn world(&self) -> &World {
        &self.stage.world
    }

    /// Commits messages of a topic that no route takes yet.
    fn enqueue(&mut self) -> (String, BTreeSet<MessageId>) {
        self.topics_count += 1;
        let topic = format!("late-{}", self.topics_count);
        let mut ids = BTreeSet::new();
        for number in 0..WAITING {
            let mut message = Message::from_bytes(&topic, Some("late"), number.to_string());
            message.id = self.world().next_id();
            ids.insert(message.id);
            let mut tx = self.stage.store.begin();
            tx.enqueue(&[message]).expect("a valid message");
            tx.commit();
        }
        (topic, ids)
    }

    async fn register(&mut self) {
        let (topic, ids) = self.enqueue();
        let topics = vec![topic.parse().expect("a pattern")];
        let spec = RouteSpec { name: topic.clone(), topics, shards: 1 };
        self.while_purging(&spec).await;
        self.routes.push(spec);
        self.check(self.routes.len() - 1, &topic, ids).await;
    }

    async fn widen(&mut self) {
        let (topic, ids) = self.enqueue();
        // So that the route has passed what waits.
        self.pass_all().await;
        let index = self.world().below(self.routes.len());
        self.routes[index].topics.push(topic.parse().expect("a pattern"));
        let spec = self.routes[index].clone();
        self.while_purging(&spec).await;
        self.check(index, &topic, ids).await;
    }

    /// Registers while another process cleans up, at some point of that.
    async fn while_purging(&self, spec: &RouteSpec) {
        let world = &self.stage.world;
        let own = self.stage.wire(&world.process("registrar"));
        let other = self.stage.wire(&world.process("cleaner"));
        let register = async {
            sleep(world.millis(0..60)).await;
            while let Err(error) = own.register(spec).await {
                world.trace(format_args!("{} is not registered: {error}", spec.name));
                sleep(world.millis(10..500)).await;
            }
            world.trace(format_args!("{} takes {} topics", spec.name, spec.topics.len()));
        };
        // Whether it worked does not matter here.
        let (_, ()) = tokio::join!(other.purge(NONE, 100), register);
    }

    /// Serves every route to the end of the log.
    async fn pass_all(&self) {
        for spec in &self.routes {
            let grant = self.grant(spec).await;
            let (_, position) = self.read(&grant).await;
            self.settle(&grant, position).await;
        }
    }

    /// Compares the messages that a route finds with the messages that waited for it.
    async fn check(&self, index: usize, topic: &str, mut waiting: BTreeSet<MessageId>) {
        let grant = self.grant(&self.routes[index]).await;
        let (read, position) = self.read(&grant).await;
        waiting.retain(|id| !read.contains(id));
        let store = &self.stage.store;
        loop {
            let due = store.due(&grant.lease, 1000, usize::MAX >> 1).await;
            let due = due.expect("it never fails");
            waiting.retain(|id| !due.messages.iter().any(|parked| parked.message.id == *id));
            let delivered = due.messages.iter().map(|parked| parked.seq).collect();
            let settlement = Settlement { delivered, ..Settlement::default() };
            store.settle(&grant.lease, &settlement).await.expect("it never fails");
            if waiting.is_empty() || due.undelivered.is_empty() {
                break;
            }
            // The database's clock went back: what is parked has to wait for it.
            sleep(Duration::from_millis(100)).await;
        }
        self.settle(&grant, position).await;
        if !waiting.is_empty() {
            let gone = waiting.len();
            let what = format!("P2 {gone} of {WAITING} messages that waited for {topic} are gone");
            self.world().problem(what);
        }
    }

    /// No other process serves these routes; the lease is given back after each use.
    async fn grant(&self, spec: &RouteSpec) -> Grant {
        let claim = Claim {
            route: spec.name.clone(),
            shard: Shard::WHOLE,
            relay: RelayId::fresh(),
            ttl: Duration::from_secs(1),
            rewound: None,
        };
        let grant = self.stage.store.acquire(&claim).await.expect("it never fails");
        grant.expect("nobody else serves it")
    }

    async fn read(&self, grant: &Grant) -> (Vec<MessageId>, Position) {
        let mut ids = Vec::new();
        let mut after = grant.position.clone();
        loop {
            let fetch = Fetch {
                route: grant.lease.route.clone(),
                shard: Shard::WHOLE,
                after: after.clone(),
                until: None,
                rows_max: 1000,
                bytes_max: usize::MAX >> 1,
                epoch: Some(grant.lease.epoch),
                evidence: None,
            };
            let batch = self.stage.store.fetch(&fetch).await.expect("it never fails");
            after = after.passed(batch.end, &batch.snapshot);
            ids.extend(batch.messages.iter().map(|fetched| fetched.message.id));
            if !batch.more {
                return (ids, after);
            }
        }
    }

    /// Settles the position of a route, and gives its lease back.
    async fn settle(&self, grant: &Grant, position: Position) {
        let settlement = Settlement { position: Some(position), ..Settlement::default() };
        let store = &self.stage.store;
        store.settle(&grant.lease, &settlement).await.expect("it never fails");
        store.release(&grant.lease).await.expect("it never fails");
    }
}

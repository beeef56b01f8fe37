//! What an outage says: in the log, and to the database for `status`.

use std::{
    cell::RefCell,
    fmt::{Debug, Write as _},
    sync::Once,
    time::Duration,
};

use posthaste_broker_memory::MemoryBroker;
use posthaste_core::{Status, Store as _};
use posthaste_relay::Settings;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::support::Bench;

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The lines that were logged on this thread.
///
/// It is the default of the whole process: tracing asks the thread that comes first whether an event
/// is wanted at all, and remembers a "no" of a thread without a subscriber for all others.
struct Log;

impl Log {
    fn start() -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::subscriber::set_global_default(Self).expect("nobody else sets one");
        });
        LINES.take();
        Self
    }

    fn with(&self, text: &str) -> Vec<String> {
        LINES
            .with_borrow(|lines| lines.iter().filter(|line| line.contains(text)).cloned().collect())
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("a String takes everything");
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        LINES.with_borrow_mut(|lines| lines.push(line.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn is_paused(status: &Status) -> bool {
    status.routes.first().is_some_and(|route| route.paused.is_some())
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_logged_at_its_beginning_at_growing_intervals_and_at_its_end() {
    let log = Log::start();
    let bench = Bench::new(MemoryBroker::unordered());
    bench.enqueue(&["a"], 0..3);
    bench.broker.set_down(true);
    let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
    tokio::time::sleep(Duration::from_secs(20)).await;
    let begins = log.with("route paused");
    assert_eq!(begins.len(), 1, "20 seconds: {begins:#?}");
    assert!(begins[0].starts_with("WARN") && begins[0].contains("unreachable"), "{begins:?}");
    assert_eq!(log.with("stays paused"), [] as [&str; 0]);
    tokio::time::sleep(Duration::from_secs(40)).await;
    let reminders = log.with("stays paused");
    assert_eq!(reminders.len(), 1, "a minute: {reminders:#?}");
    assert!(reminders[0].contains("paused_seconds=30"), "{reminders:?}");
    assert!(reminders[0].contains("probes_failed="), "{reminders:?}");
    bench.broker.set_down(false);
    bench.until_idle().await;
    relay.shutdown().await;
    let ends = log.with("route resumed");
    assert_eq!(ends.len(), 1, "{ends:#?}");
    assert!(ends[0].contains("paused_seconds=60"), "{ends:?}");
    assert_eq!(log.with("route paused").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_database_is_told_that_a_route_is_paused_and_that_it_is_not_any_more() {
    let bench = Bench::new(MemoryBroker::unordered());
    bench.enqueue(&["a"], 0..3);
    bench.broker.set_down(true);
    let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
    bench.until("the pause is told", is_paused).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let status = bench.store.status().await.expect("the memory store never fails");
    let paused = status.routes[0].paused.as_ref().expect("it is still paused");
    assert!(paused.reason.contains("unreachable"), "{paused:?}");
    assert!((60.0..62.0).contains(&paused.seconds), "{paused:?}");
    assert_eq!(paused.relay, status.relays[0].id);
    bench.broker.set_down(false);
    bench.until("the end is told", |status| !is_paused(status)).await;
    relay.shutdown().await;
}

/// A relay that is killed cannot say that the pause is over: what it said ends with its beat.
#[tokio::test(start_paused = true)]
async fn a_pause_that_a_dead_relay_told_is_forgotten() {
    let bench = Bench::new(MemoryBroker::unordered());
    bench.enqueue(&["a"], 0..3);
    bench.broker.set_down(true);
    let relay = bench.start(vec![bench.route("r", 1)], Settings::default());
    bench.until("the pause is told", is_paused).await;
    relay.kill().await;
    tokio::time::sleep(2 * Settings::default().lease).await;
    let status = bench.store.status().await.expect("the memory store never fails");
    assert!(status.routes[0].paused.is_none(), "{:?}", status.routes[0].paused);
}

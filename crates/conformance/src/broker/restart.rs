//! Faults in mid-run: nothing acknowledged is lost, everything arrives, and every key's first
//! deliveries are in order, for those who listen and for those who come later.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use posthaste_core::{BrokerError, Delivery, Message};
use posthaste_history::History;
use posthaste_wire::Wire;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    case::cases,
    driver::{Driver, Progress},
    inbox::Inbox,
    kit::{Kit, message, subscription, within},
};

cases! { "restart";
    [Faults]: [stop_in_mid_run_loses_nothing, silence_in_mid_run_loses_nothing],
    [Faults, SurvivesKill]: [kill_in_mid_run_loses_nothing],
}

/// Messages acknowledged before the fault, and again after it.
const STRETCH: usize = 1000;
/// Messages come in bursts, so that there are always some on their way.
const BURST: usize = 200;
const BURST_INTERVAL: Duration = Duration::from_millis(50);
/// Short, so that calls run into it.
const DEADLINE: Duration = Duration::from_secs(2);
/// Longest the run may go on after the fault.
const RUN_MAX: Duration = Duration::from_secs(90);

#[derive(Clone, Copy)]
enum Harm {
    Stop,
    Kill,
    Silence,
}

async fn stop_in_mid_run_loses_nothing(kit: Kit) -> Result<(), BrokerError> {
    run_through(&kit, Harm::Stop).await;
    Ok(())
}

async fn kill_in_mid_run_loses_nothing(kit: Kit) -> Result<(), BrokerError> {
    run_through(&kit, Harm::Kill).await;
    Ok(())
}

async fn silence_in_mid_run_loses_nothing(kit: Kit) -> Result<(), BrokerError> {
    run_through(&kit, Harm::Silence).await;
    Ok(())
}

/// Everything a run has sent.
type Sent = Arc<Mutex<Vec<Arc<Delivery>>>>;

async fn run_through(kit: &Kit, harm: Harm) {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let listening = kit.durable_inbox(&topic).await;
    // One that is away the whole time: what it finds was kept by the server and nobody else.
    let traits = kit.bed.traits();
    let away = (traits.has_names && traits.fans_out).then(|| kit.name("away"));
    let away = away.as_deref().map(|name| subscription(Some(name), &[&topic]));
    if let Some(away) = &away {
        drop(kit.bed.subscriber(Wire::default(), away.clone()).await);
    }
    let (driver, mut progress) = Driver::new(&broker, DEADLINE, true);
    let (sent, feed, stop) = feed(kit, &topic);
    let run = tokio::spawn(driver.run_fed(feed));
    until(&mut progress, "the run's first stretch", |now| now.acked >= STRETCH).await;
    do_harm(kit, harm, &mut progress).await;
    let before = progress.borrow().acked;
    until(&mut progress, "the stretch after", |now| now.acked >= before + STRETCH).await;
    drop(stop);
    match tokio::time::timeout(RUN_MAX, run).await {
        Ok(Ok(())) => {}
        Ok(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
        Err(_) => panic!("not over {RUN_MAX:?} after the fault: {:?}", *progress.borrow()),
    }
    let sent = sent.lock().unwrap_or_else(PoisonError::into_inner).clone();
    check_sound("who listened all the time", &listening, &sent).await;
    if let Some(away) = away {
        let back = kit.inbox_of(Wire::default(), away).await;
        check_sound("who was away", &back, &sent).await;
    }
}

/// Messages in bursts, until the last value is dropped.
fn feed(kit: &Kit, topic: &str) -> (Sent, mpsc::Receiver<Vec<Arc<Delivery>>>, oneshot::Sender<()>) {
    let (bursts, feed) = mpsc::channel(1);
    let (stop, mut stopped) = oneshot::channel();
    let sent = Sent::default();
    let (kit, topic, log) = (kit.clone(), topic.to_owned(), Arc::clone(&sent));
    tokio::spawn(async move {
        let mut random = fastrand::Rng::with_seed(3000);
        let mut beat = tokio::time::interval(BURST_INTERVAL);
        loop {
            tokio::select! {
                _ = &mut stopped => return,
                _ = beat.tick() => {}
            }
            // Recorded only once it is sure to be sent.
            let Ok(place) = bursts.reserve().await else { return };
            let burst = kit.deliveries((0..BURST).map(|n| random_message(&mut random, &topic, n)));
            log.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&burst);
            place.send(burst);
        }
    });
    (sent, feed, stop)
}

/// One of twenty keys, or ordered with nothing.
fn random_message(random: &mut fastrand::Rng, topic: &str, number: usize) -> Message {
    let key = (random.u32(..10) > 0).then(|| format!("key-{}", random.u32(..20)));
    message(topic, key.as_deref(), number)
}

/// Does the harm, and undoes it once it has been felt.
async fn do_harm(kit: &Kit, harm: Harm, progress: &mut watch::Receiver<Progress>) {
    let faults = kit.faults();
    match harm {
        Harm::Stop => faults.stop().await,
        Harm::Kill => faults.kill().await,
        Harm::Silence => faults.freeze().await,
    }
    until(progress, "a call that fails because of the fault", |now| now.failed > 0).await;
    match harm {
        Harm::Stop | Harm::Kill => faults.start().await,
        Harm::Silence => faults.thaw().await,
    }
}

async fn until(
    progress: &mut watch::Receiver<Progress>,
    what: &str,
    is_there: impl Fn(&Progress) -> bool,
) {
    let reached = within(what, progress.wait_for(|now| is_there(now))).await;
    // The run is still fed, so it can only have ended by failing; it has said how.
    assert!(reached.is_ok(), "{what}: the run ended before");
}

async fn check_sound(who: &str, inbox: &Inbox, sent: &[Arc<Delivery>]) {
    inbox.until_has(&format!("messages for {who}"), sent).await;
    let mut history = History::default();
    history.committed(sent.iter().map(|delivery| &delivery.message));
    for id in inbox.ids() {
        history.received(id);
    }
    let report = history.check();
    assert!(report.is_sound(), "for {who}: {report}");
}

//! The broker suite once more, with our own subscriber at the other end. Cases share it: what arrives
//! is passed on to each listener whose topics it has, and acknowledged then.

use std::{
    net::SocketAddr,
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use posthaste_broker_tcp::{Config, TcpBroker, subscribe};
use posthaste_conformance::broker::{self, Bed, Faults, Fixture, Traits};
use posthaste_core::{
    Broker, BrokerError, Incoming, MessageId, Sharing, Start, Subscriber, Subscription,
    TopicPattern,
};
use posthaste_fixtures::{Port, look};
use posthaste_wire::{Profile, Wire};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

struct LoopbackFixture;

#[async_trait]
impl Fixture for LoopbackFixture {
    async fn shared(&self) -> Arc<dyn Bed> {
        Arc::new(LoopbackBed::new(false).await)
    }

    async fn private(&self) -> Arc<dyn Bed> {
        Arc::new(LoopbackBed::new(true).await)
    }
}

type Listeners = Arc<Mutex<Vec<(Profile, Vec<TopicPattern>, mpsc::UnboundedSender<Incoming>)>>>;

/// Subscribers, one for each form of messages, and who listens to them.
struct LoopbackBed {
    consumers: Mutex<Vec<Consumer>>,
    listeners: Listeners,
    is_frozen: Arc<AtomicBool>,
    is_private: bool,
}

struct Consumer {
    profile: Profile,
    port: Port,
    /// `None` while it is stopped.
    task: Option<JoinHandle<()>>,
}

impl LoopbackBed {
    async fn new(is_private: bool) -> Self {
        let mut bed = Self {
            consumers: Mutex::default(),
            listeners: Listeners::default(),
            is_frozen: Arc::default(),
            is_private,
        };
        let mut consumers = Vec::new();
        for (_, profile) in Profile::ALL {
            let port = Port::hold();
            let task = bed.consume(profile, port.address()).await;
            consumers.push(Consumer { profile, port, task: Some(task) });
        }
        bed.consumers = Mutex::new(consumers);
        bed
    }

    /// Starts to take what arrives at an address.
    async fn consume(&self, profile: Profile, at: SocketAddr) -> JoinHandle<()> {
        let wire = Wire { profile, ..Wire::default() };
        let config = Config { wire, ..Config::new(format!("tcp://{at}")) };
        let topics = vec!["*".parse().expect("a pattern")];
        let everything =
            Subscription { name: None, topics, start: Start::New, sharing: Sharing::Competing };
        let (listeners, is_frozen) = (Arc::clone(&self.listeners), Arc::clone(&self.is_frozen));
        let (started, starts) = oneshot::channel();
        // On its own, because a case that is over takes its tasks along, and not this.
        let task = tokio::spawn(async move {
            // One that was stopped here may still be about to end.
            look(|| std::net::TcpListener::bind(at).ok()).await;
            let mut subscriber = subscribe(&config, &everything).await.expect("a free port");
            let _ = started.send(());
            while let Ok(incoming) = subscriber.receive().await {
                look(|| (!is_frozen.load(Ordering::SeqCst)).then_some(())).await;
                let receipt = incoming.receipt;
                for (of, topics, listener) in &*listeners.lock().expect("no panic here") {
                    let is_wanted = topics.iter().any(|it| it.matches(&incoming.message.topic));
                    if *of == profile && is_wanted {
                        // Who has left needs nothing.
                        let _ = listener.send(incoming.clone());
                    }
                }
                // A relay that is gone sends it again.
                let _ = subscriber.acknowledge(receipt).await;
            }
        });
        starts.await.expect("it starts");
        task
    }
}

#[async_trait]
impl Bed for LoopbackBed {
    async fn broker(&self, wire: Wire) -> Arc<dyn Broker> {
        let address = {
            let consumers = self.consumers.lock().expect("no panic here");
            let of = consumers.iter().find(|consumer| consumer.profile == wire.profile);
            of.expect("one for each profile").port.address()
        };
        let config = Config { wire, ..Config::new(format!("tcp://{address}")) };
        Arc::new(TcpBroker::open(config).expect("a good configuration"))
    }

    async fn subscriber(&self, wire: Wire, subscription: Subscription) -> Box<dyn Subscriber> {
        let (listener, arriving) = mpsc::unbounded_channel();
        let listening = (wire.profile, subscription.topics, listener);
        self.listeners.lock().expect("no panic here").push(listening);
        Box::new(Listener { arriving })
    }

    async fn topics(&self, endings: &[&str]) -> Vec<String> {
        let name = format!("t{}", MessageId::fresh());
        endings.iter().map(|ending| format!("{name}{ending}")).collect()
    }

    fn traits(&self) -> Traits {
        Traits {
            illegal_headers: vec![("ce-id".to_owned(), "an id of theirs".to_owned())],
            has_destinations: false,
            has_lanes: false,
            has_names: false,
            shares_names: false,
            redelivers: false,
            keeps_history: false,
            ..Traits::default()
        }
    }

    fn faults(&self) -> Option<&dyn Faults> {
        self.is_private.then_some(self)
    }
}

#[async_trait]
impl Faults for LoopbackBed {
    async fn stop(&self) {
        let tasks: Vec<_> = {
            let mut consumers = self.consumers.lock().expect("no panic here");
            consumers.iter_mut().filter_map(|consumer| consumer.task.take()).collect()
        };
        for task in tasks {
            task.abort();
            // It ends by being aborted.
            let _ = task.await;
        }
    }

    async fn kill(&self) {
        self.stop().await;
    }

    async fn start(&self) {
        let stopped: Vec<_> = {
            let consumers = self.consumers.lock().expect("no panic here");
            let stopped = consumers.iter().filter(|consumer| consumer.task.is_none());
            stopped.map(|consumer| (consumer.profile, consumer.port.address())).collect()
        };
        for (profile, address) in stopped {
            let task = self.consume(profile, address).await;
            let mut consumers = self.consumers.lock().expect("no panic here");
            let of = consumers.iter_mut().find(|consumer| consumer.profile == profile);
            of.expect("one for each profile").task = Some(task);
        }
    }

    async fn freeze(&self) {
        self.is_frozen.store(true, Ordering::SeqCst);
    }

    async fn thaw(&self) {
        self.is_frozen.store(false, Ordering::SeqCst);
    }
}

/// One that listens; what it was given is acknowledged already.
struct Listener {
    arriving: mpsc::UnboundedReceiver<Incoming>,
}

#[async_trait]
impl Subscriber for Listener {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        let gone = || BrokerError { message: "the bed is gone".to_owned(), source: None };
        self.arriving.recv().await.ok_or_else(gone)
    }

    async fn acknowledge(&mut self, _: u64) -> Result<(), BrokerError> {
        Ok(())
    }
}

fn main() -> ExitCode {
    broker::run("tcp loopback", LoopbackFixture)
}

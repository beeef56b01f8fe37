//! The broker suite on the memory broker, which has no wire form.

use std::{process::ExitCode, sync::Arc};

use async_trait::async_trait;
use posthaste_broker_memory::{MemoryBroker, Script};
use posthaste_conformance::broker::{self, Bed, Faults, Fixture, Traits};
use posthaste_core::{Broker, MessageId, Subscriber, Subscription};
use posthaste_wire::Wire;

struct Memory;

#[derive(Default)]
struct MemoryBed {
    broker: MemoryBroker,
    has_faults: bool,
}

#[async_trait]
impl Fixture for Memory {
    async fn shared(&self) -> Arc<dyn Bed> {
        Arc::new(MemoryBed::default())
    }

    async fn private(&self) -> Arc<dyn Bed> {
        Arc::new(MemoryBed { has_faults: true, ..MemoryBed::default() })
    }
}

#[async_trait]
impl Bed for MemoryBed {
    async fn broker(&self, _: Wire) -> Arc<dyn Broker> {
        Arc::new(self.broker.clone())
    }

    async fn subscriber(&self, _: Wire, subscription: Subscription) -> Box<dyn Subscriber> {
        Box::new(self.broker.subscribe_to(&subscription))
    }

    async fn topics(&self, endings: &[&str]) -> Vec<String> {
        let name = MessageId::fresh();
        endings.iter().map(|ending| format!("{name}{ending}")).collect()
    }

    fn traits(&self) -> Traits {
        Traits { has_wire_form: false, ..Traits::default() }
    }

    fn faults(&self) -> Option<&dyn Faults> {
        self.has_faults.then_some(self)
    }
}

#[async_trait]
impl Faults for MemoryBed {
    async fn stop(&self) {
        self.broker.set_down(true);
    }

    async fn kill(&self) {
        self.broker.set_down(true);
    }

    async fn start(&self) {
        self.broker.set_down(false);
    }

    async fn freeze(&self) {
        self.broker.set_rule(|_| Script::Hang);
    }

    async fn thaw(&self) {
        self.broker.clear_rule();
    }
}

fn main() -> ExitCode {
    broker::run("memory", Memory)
}

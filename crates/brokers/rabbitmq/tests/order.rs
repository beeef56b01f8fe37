//! Pipelined order, which the suite does not see because it is not the default.

mod support;

use std::sync::Arc;

use posthaste_broker_rabbitmq::{Config, Ordering};
use posthaste_core::{Broker, CallOrder, Delivery, Message, Outcome};
use posthaste_fixtures::{Kind, server};
use support::{PATIENCE, broker, delivery, routed, told};

fn numbered(topic: &str, number: usize) -> Message {
    Message::from_bytes(topic, Some("hot"), number.to_string())
}

#[tokio::test]
async fn a_hot_key_is_pipelined_in_order() {
    let (config, admin, queue) = routed(server(Kind::RabbitMq).url()).await;
    let broker = broker(Config { ordering: Ordering::Pipelined, ..config });
    let capabilities = broker.capabilities();
    assert_eq!(capabilities.call_order, CallOrder::PerKey);
    let total = 4 * capabilities.call_messages_max;
    // Both destinations are one key: its order is kept across them.
    let topic = |number: usize| if (number / 100).is_multiple_of(2) { "even" } else { "odd" };
    let all: Vec<_> = (0..total).map(|number| delivery(numbered(topic(number), number))).collect();
    for call in all.chunks(capabilities.call_messages_max) {
        let outcomes = broker.publish(call, PATIENCE).await;
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Acked));
    }
    for number in 0..total {
        let message = admin.get(&queue).await.expect("they are all there");
        assert_eq!(message.data, number.to_string().as_bytes());
    }
}

#[tokio::test]
async fn what_follows_a_refused_message_of_its_key_is_held_back() {
    let (config, admin, queue) = routed(server(Kind::RabbitMq).url()).await;
    let broker = broker(Config { ordering: Ordering::Pipelined, ..config });
    let call: Vec<Arc<Delivery>> = (0..10)
        .map(|number| match number {
            5 => delivery(numbered("t", number).header("CC", "x")),
            9 => delivery(Message::from_bytes("t", Some("cold"), "cold")),
            _ => delivery(numbered("t", number)),
        })
        .collect();
    let outcomes = broker.publish(&call, PATIENCE).await;
    for (number, outcome) in outcomes.iter().enumerate() {
        let expected = match number {
            5 => ("rejected", "header"),
            6..9 => ("unreachable", "held"),
            _ => ("acked", ""),
        };
        assert_eq!(told(outcome), expected, "message {number}");
    }
    assert_eq!(admin.count(&queue).await, 6);
}

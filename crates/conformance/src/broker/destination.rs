//! Destinations: the template decides where a message goes.

use posthaste_core::{BrokerError, Outcome};
use posthaste_wire::Wire;

use super::{
    case::cases,
    kit::{DEADLINE, Kit, call, message, publish, subscription},
};

cases! { "destination";
    [WireForm, Destinations]: [
        template_decides_where_a_message_goes,
        message_that_lacks_a_part_of_it_fails_alone,
    ],
    [WireForm, Destinations, FanOut]: [other_programs_find_messages_under_the_full_name],
}

fn wire(template: &str) -> Wire {
    let destination = template.parse().expect("the template is legal");
    Wire { destination, ..Wire::default() }
}

async fn template_decides_where_a_message_goes(kit: Kit) -> Result<(), BrokerError> {
    let topics = kit.topics(&["", ".v1"]).await;
    let wire = wire("{topic}.v1");
    let broker = kit.bed.broker(wire.clone()).await;
    let inbox = kit.inbox_of(wire, subscription(None, &[&topics[0]])).await;
    let deliveries = kit.deliveries([message(&topics[0], Some("k"), 1)]);
    publish(broker.as_ref(), &deliveries).await;
    let arrived = inbox.until_count("a message by way of a template", 1).await;
    assert_eq!(arrived[0].message.id, deliveries[0].message.id);
    assert_eq!(arrived[0].message.topic, topics[0], "the topic is the outbox's");
    Ok(())
}

async fn other_programs_find_messages_under_the_full_name(kit: Kit) -> Result<(), BrokerError> {
    let topics = kit.topics(&["", ".v1", ".placed"]).await;
    let by_name = kit.inbox(&[&topics[1]]).await;
    let by_type = kit.inbox(&[&topics[2]]).await;
    let plain = kit.inbox(&[&topics[0]]).await;
    for (template, inbox) in [("{topic}.v1", &by_name), ("{topic}.{type}", &by_type)] {
        let delivery = kit.delivery(message(&topics[0], Some("k"), 1).event_type("placed"));
        let broker = kit.bed.broker(wire(template)).await;
        publish(broker.as_ref(), std::slice::from_ref(&delivery)).await;
        let arrived = inbox.until_count(template, 1).await;
        assert_eq!(arrived[0].message.id, delivery.message.id);
    }
    kit.fence(kit.broker().await.as_ref(), &plain, &topics[0], "k").await;
    assert_eq!(plain.ids().len(), 1, "nothing goes to the bare topic");
    Ok(())
}

async fn message_that_lacks_a_part_of_it_fails_alone(kit: Kit) -> Result<(), BrokerError> {
    let topics = kit.topics(&["", ".placed"]).await;
    let wire = wire("{topic}.{type}");
    let broker = kit.bed.broker(wire.clone()).await;
    let inbox = kit.inbox_of(wire, subscription(None, &[&topics[0]])).await;
    let typed = |key: &str| message(&topics[0], Some(key), 1).event_type("placed");
    let untyped = message(&topics[0], Some("b"), 2);
    let deliveries = kit.deliveries([typed("a"), untyped, typed("c")]);
    let outcomes = call(broker.as_ref(), &deliveries, DEADLINE).await;
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Acked, &Outcome::Acked));
    let Outcome::Rejected(failure) = &outcomes[1] else { panic!("not {:?}", outcomes[1]) };
    assert!(failure.is_hopeless, "no later attempt gives it a type: {failure}");
    let arrived = inbox.until_count("the two that have a type", 2).await;
    assert_eq!(arrived.len(), 2);
    Ok(())
}

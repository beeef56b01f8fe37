//! Sizes: the largest payload the broker takes arrives, one byte more is refused, and nobody else
//! suffers.

use posthaste_core::{Broker, BrokerError, Message, Outcome, PAYLOAD_BYTES_MAX};

use super::{
    case::cases,
    kit::{DEADLINE, Kit, call, message, publish},
};

cases! { "size";
    [PayloadLimit]: [limit_is_exact_and_too_large_harms_nobody],
    [NoPayloadLimit]: [largest_payload_of_an_outbox_arrives],
}

/// What of the limit the other parts of a message may take.
const OTHER_PARTS_MAX: usize = 2048;

fn of_size(topic: &str, size: usize) -> Message {
    let message = Message::from_bytes(topic, Some("k"), vec![b'x'; size]);
    message.content_type("application/octet-stream")
}

async fn limit_is_exact_and_too_large_harms_nobody(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    let max = kit.bed.traits().payload_max.expect("the case needs a limit");
    // Taken at the lower end, refused at the upper; the edge is in between.
    let (mut taken, mut refused) = (max - OTHER_PARTS_MAX, max + 1);
    let mut sent = 0;
    for size in [taken, refused] {
        let outcome = outcome_of(&kit, broker.as_ref(), of_size(&topic, size)).await;
        assert_eq!(outcome, size == taken, "whether {size} bytes are taken, the limit being {max}");
        sent += usize::from(outcome);
    }
    while refused - taken > 1 {
        let middle = taken.midpoint(refused);
        if outcome_of(&kit, broker.as_ref(), of_size(&topic, middle)).await {
            (taken, sent) = (middle, sent + 1);
        } else {
            refused = middle;
        }
    }
    publish(broker.as_ref(), &[kit.delivery(message(&topic, Some("k"), 1))]).await;
    let arrived = inbox.until_count("every payload that was taken", sent + 1).await;
    assert_eq!(arrived.len(), sent + 1, "what is too large does not arrive");
    let largest = arrived.iter().map(|incoming| incoming.message.payload.len()).max();
    assert_eq!(largest, Some(taken), "the largest arrives whole");
    Ok(())
}

/// Whether the message is taken; if not, it is too large.
async fn outcome_of(kit: &Kit, broker: &dyn Broker, message: Message) -> bool {
    let size = message.payload.len();
    match call(broker, &[kit.delivery(message)], DEADLINE).await.pop() {
        Some(Outcome::Acked) => true,
        Some(Outcome::Rejected(failure)) => {
            assert_eq!(failure.class, "too-large", "{failure}");
            assert!(failure.is_hopeless, "no later attempt makes it smaller: {failure}");
            false
        }
        other => panic!("{size} bytes are taken or rejected, not {other:?}"),
    }
}

async fn largest_payload_of_an_outbox_arrives(kit: Kit) -> Result<(), BrokerError> {
    let (topic, broker) = (kit.topic().await, kit.broker().await);
    let inbox = kit.inbox(&[&topic]).await;
    let largest = kit.delivery(of_size(&topic, PAYLOAD_BYTES_MAX));
    publish(broker.as_ref(), std::slice::from_ref(&largest)).await;
    let arrived = inbox.until_count("8 MiB", 1).await;
    assert!(arrived[0].message.payload == largest.message.payload, "8 MiB arrive as they were");
    Ok(())
}

//! Failures that a real server does not have on demand, by the client library's mock cluster.

mod common;

use std::{sync::Arc, time::Duration};

use common::{
    DEADLINE, PATIENCE, Sent, broker, client, contents, keyed, kind, of_key, publish_all,
    publish_one, works_again,
};
use posthaste_broker_kafka::{Config, subscribe};
use posthaste_core::{Broker, Delivery, Outcome, Sharing, Start, Subscriber as _, Subscription};
use rdkafka::{
    mocking::MockCluster,
    producer::DefaultProducerContext,
    types::{RDKafkaApiKey, RDKafkaRespErr},
};

struct Mock {
    cluster: MockCluster<'static, DefaultProducerContext>,
    url: String,
}

impl Mock {
    fn new() -> Self {
        let cluster = MockCluster::new(1).expect("a mock cluster");
        cluster.create_topic("orders", 1, 1).expect("a topic");
        cluster.create_topic("other", 1, 1).expect("a topic");
        let url = format!("kafka://{}", cluster.bootstrap_servers());
        Self { cluster, url }
    }

    fn refuse(&self, errors: &[RDKafkaRespErr]) {
        self.cluster.request_errors(RDKafkaApiKey::Produce, errors);
    }
}

fn hot(count: usize) -> Vec<Arc<Delivery>> {
    (0..count).map(|n| keyed("orders", "hot", format!("{n:04}"))).collect()
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{n:04}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_is_tried_again_in_order() {
    for error in [
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR__TRANSPORT,
    ] {
        let mock = Mock::new();
        let broker = broker(&mock.url);
        mock.refuse(&[error, error]);
        let sent = publish_all(&broker, &hot(1000)).await;
        let is_lost = error == RDKafkaRespErr::RD_KAFKA_RESP_ERR__TRANSPORT;
        assert!(sent == Sent::Once || is_lost, "{error:?}");
        assert_eq!(of_key(&contents(&client(&mock.url), "orders").await, "hot"), numbers(1000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_replicas_until_the_deadline_is_unknown() {
    let mock = Mock::new();
    let broker = broker(&mock.url);
    let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS;
    assert_eq!(publish_one(&broker, "orders", DEADLINE).await, Outcome::Acked);
    mock.refuse(&[error; 200]);
    let outcome = publish_one(&broker, "orders", Duration::from_secs(2)).await;
    assert_eq!(kind(&outcome), ("unknown", "timeout"), "{outcome:?}");
    mock.cluster.clear_request_errors(RDKafkaApiKey::Produce);
    works_again(&broker, "orders").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_batch_is_taken_apart_in_order() {
    let mock = Mock::new();
    let broker = broker(&mock.url);
    mock.refuse(&[RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    let outcomes = broker.publish(&hot(1000), DEADLINE).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Acked), "{:?}", outcomes[0]);
    assert_eq!(of_key(&contents(&client(&mock.url), "orders").await, "hot"), numbers(1000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_denied_leaves_the_others_alone() {
    let mock = Mock::new();
    let broker = broker(&mock.url);
    // Whichever batch comes first is the denied one, so the other topic gets none of this call.
    mock.refuse(&[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
    let outcome = publish_one(&broker, "orders", DEADLINE).await;
    assert_eq!(kind(&outcome), ("rejected", "denied"));
    let call = [keyed("other", "a", "1"), keyed("orders", "b", "1"), keyed("other", "a", "2")];
    let outcomes = broker.publish(&call, DEADLINE).await;
    let kinds: Vec<_> = outcomes.iter().map(kind).collect();
    assert_eq!(kinds, [("acked", ""), ("rejected", "denied"), ("acked", "")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_key_is_taken_behind_one_that_failed() {
    let mock = Mock::new();
    let broker = broker(&mock.url);
    mock.refuse(&[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
    let outcomes = broker.publish(&hot(1000), DEADLINE).await;
    assert_eq!(kind(&outcomes[0]), ("rejected", "denied"));
    assert!(!outcomes.contains(&Outcome::Acked), "an acknowledgement behind a failure");
    assert_eq!(contents(&client(&mock.url), "orders").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_that_is_finished_is_replaced() {
    // A server that has forgotten the producer refuses whatever is on its way.
    for (error, times) in [
        (RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, 1),
        (RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, 1),
        (RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, 2),
    ] {
        let mock = Mock::new();
        let broker = broker(&mock.url);
        assert_eq!(publish_one(&broker, "orders", DEADLINE).await, Outcome::Acked);
        mock.refuse(&vec![error; times]);
        let outcomes = broker.publish(&hot(1000), DEADLINE).await;
        let failed = outcomes.iter().position(|outcome| *outcome != Outcome::Acked);
        let acked = failed.unwrap_or(outcomes.len());
        let behind = outcomes[acked..].iter().position(|outcome| *outcome == Outcome::Acked);
        let runs = outcomes.chunk_by(|a, b| a == b).map(|run| (run.len(), &run[0]));
        assert_eq!(behind, None, "{error:?}: {:?}", runs.collect::<Vec<_>>());
        if let Some(at) = failed {
            assert_eq!(kind(&outcomes[at]), ("unknown", "producer"), "{error:?}");
        }
        let arrived = of_key(&contents(&client(&mock.url), "orders").await, "hot");
        let missing: Vec<_> =
            numbers(acked).into_iter().filter(|number| !arrived.contains(number)).collect();
        assert!(missing.is_empty(), "{error:?}: acknowledged and not there: {missing:?}");
        // The client starts a new sequence, and may store what follows before what was refused. So
        // order is not promised here; that nothing unsure counts as delivered is.
        works_again(&broker, "orders").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_unreachable_and_found_again() {
    let mock = Mock::new();
    let broker = broker(&mock.url);
    assert_eq!(publish_one(&broker, "orders", DEADLINE).await, Outcome::Acked);
    mock.cluster.broker_down(1).expect("down");
    let first = publish_one(&broker, "orders", Duration::from_secs(5)).await;
    assert!(matches!(kind(&first), ("unreachable" | "unknown", "connection" | "timeout")));
    let second = publish_one(&broker, "orders", Duration::from_secs(5)).await;
    assert_eq!(kind(&second), ("unreachable", "connection"), "{second:?}");
    mock.cluster.broker_up(1).expect("up");
    works_again(&broker, "orders").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_the_deadline_is_not_waited_for() {
    let mock = Mock::new();
    let broker = broker(&mock.url);
    assert_eq!(publish_one(&broker, "orders", DEADLINE).await, Outcome::Acked);
    mock.cluster.broker_round_trip_time(1, Duration::from_secs(4)).expect("slow");
    let outcome = publish_one(&broker, "orders", Duration::from_secs(1)).await;
    assert_eq!(kind(&outcome), ("unknown", "timeout"), "{outcome:?}");
    mock.cluster.broker_round_trip_time(1, Duration::ZERO).expect("quick");
    works_again(&broker, "orders").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_overlap_and_each_gets_its_own_outcomes() {
    let mock = Mock::new();
    let broker = Arc::new(broker(&mock.url));
    let calls = (0..8).map(|call| {
        let broker = Arc::clone(&broker);
        tokio::spawn(async move {
            let messages: Vec<Arc<Delivery>> =
                (0..500).map(|n| keyed("orders", &format!("k{call}"), format!("{n:04}"))).collect();
            broker.publish(&messages, DEADLINE).await
        })
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(call.await.unwrap().iter().all(|outcome| *outcome == Outcome::Acked));
    }
    let contents = contents(&client(&mock.url), "orders").await;
    for call in 0..8 {
        assert_eq!(of_key(&contents, &format!("k{call}")), numbers(500));
    }
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_cannot_be_looked_up_skips_nothing() {
    for error in [
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
    ] {
        let mock = Mock::new();
        let (broker, config) = (broker(&mock.url), Config::new(&mock.url));
        let subscription = Subscription {
            name: Some("group".to_owned()),
            topics: vec!["orders".parse().unwrap()],
            start: Start::New,
            sharing: Sharing::Competing,
        };
        let before = keyed("orders", "key", "before");
        assert_eq!(broker.publish(&[before], DEADLINE).await, [Outcome::Acked]);
        drop(subscribe(&config, &subscription).await.expect("the group begins"));
        let after = keyed("orders", "key", "after");
        assert_eq!(broker.publish(&[after], DEADLINE).await, [Outcome::Acked]);
        mock.cluster.request_errors(RDKafkaApiKey::OffsetFetch, &[error; 3]);
        let received = async {
            loop {
                if let Ok(mut subscriber) = subscribe(&config, &subscription).await
                    && let Ok(incoming) = subscriber.receive().await
                {
                    return incoming.message.payload;
                }
            }
        };
        let received = tokio::time::timeout(PATIENCE, received).await.expect("it is not skipped");
        assert_eq!(&*received, b"after", "{error:?}");
    }
}

/// A partition has no leader for a moment after its topic was made, and when it moves.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_waits_for_the_leader_of_a_partition() {
    let mock = Mock::new();
    let (broker, config) = (broker(&mock.url), Config::new(&mock.url));
    assert_eq!(publish_one(&broker, "orders", DEADLINE).await, Outcome::Acked);
    let subscription = Subscription {
        name: Some("group".to_owned()),
        topics: vec!["orders".parse().unwrap()],
        start: Start::New,
        sharing: Sharing::Competing,
    };
    let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
    mock.cluster.request_errors(RDKafkaApiKey::ListOffsets, &[error; 5]);
    let mut subscriber = subscribe(&config, &subscription).await.expect("it waits");
    let after = keyed("orders", "key", "after");
    assert_eq!(broker.publish(&[after], DEADLINE).await, [Outcome::Acked]);
    let received = tokio::time::timeout(PATIENCE, subscriber.receive()).await;
    assert_eq!(&*received.expect("in time").expect("a message").message.payload, b"after");
}

//! What `doctor` looks at: whether the cluster can be used, and whether its topics keep what they
//! acknowledge.

use std::time::Duration;

use posthaste_core::{BrokerError, Failure, Finding, PAYLOAD_BYTES_MAX, TopicPattern};
use posthaste_wire::{Connection, Link};
use rdkafka::{
    admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier},
    config::FromClientConfigAndContext,
    error::KafkaError,
    producer::Producer as _,
    types::RDKafkaErrorCode as Code,
};

use crate::{
    config::Settings,
    connect::{Context, Manner, Producer, asking, blocking},
    publish::Until,
    record::is_topic,
    topic::{QUESTION, ask},
};

/// How long looking may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most topics that are looked at one by one.
const TOPICS_MAX: usize = 50;
/// Copies of a message, and how many of them must have it before it is acknowledged.
const REPLICAS_MIN: usize = 2;

/// What the cluster says about a topic.
#[derive(Clone, Debug)]
struct Topic {
    name: String,
    partitions: usize,
    /// Of the partition that has the fewest.
    replicas: usize,
    error: Option<Code>,
}

pub(crate) async fn examine(
    settings: &Settings,
    topics: &[TopicPattern],
) -> Result<Vec<Finding>, BrokerError> {
    let unusable = |failure: Failure| BrokerError {
        message: format!("Kafka at {}: {failure}; {}", settings.servers, advice(failure.class)),
        source: None,
    };
    let until = Until::after(PATIENCE);
    let connection: Connection<Producer> = Connection::default();
    let producer = Producer::new(settings, Manner::Alone, 1024 * 1024);
    let producer = connection.get(producer).await.map_err(unusable)?;
    let all = all_topics(&producer, until).await.map_err(unusable)?;
    let mut findings = vec![Finding::ok(format!("Kafka at {} answers", settings.servers))];
    let mut wanted: Vec<&Topic> = Vec::new();
    for pattern in topics {
        let pattern = settings.wire.destination.pattern(pattern);
        let found: Vec<&Topic> = all.iter().filter(|topic| pattern.matches(&topic.name)).collect();
        if found.is_empty() {
            findings.push(missing(settings, &pattern));
        }
        wanted.extend(found);
    }
    wanted.sort_by(|one, other| one.name.cmp(&other.name));
    wanted.dedup_by(|one, other| one.name == other.name);
    if wanted.len() > TOPICS_MAX {
        let all = wanted.len();
        findings.push(Finding::ok(format!("{all} topics; the first {TOPICS_MAX} were looked at")));
        wanted.truncate(TOPICS_MAX);
    }
    let configs = configs(settings, &wanted).await;
    for (at, topic) in wanted.iter().enumerate() {
        let config = match &configs {
            Ok(configs) => configs.get(at).and_then(|config| config.as_ref().ok()),
            Err(_) => None,
        };
        findings.extend(of_topic(settings, topic, config));
    }
    Ok(findings)
}

async fn all_topics(producer: &Link<Producer>, until: Until) -> Result<Vec<Topic>, Failure> {
    ask(producer, until, |producer| {
        let metadata = producer.client().client().fetch_metadata(None, QUESTION)?;
        let topics = metadata.topics().iter().map(|topic| {
            let replicas = topic.partitions().iter().map(|partition| partition.replicas().len());
            Topic {
                name: topic.name().to_owned(),
                partitions: topic.partitions().len(),
                replicas: replicas.min().unwrap_or(0),
                error: topic.error().map(Code::from),
            }
        });
        Ok(topics.collect())
    })
    .await
}

type Described = Vec<Result<ConfigResource, Code>>;

async fn configs(settings: &Settings, topics: &[&Topic]) -> Result<Described, KafkaError> {
    let config = asking(settings);
    let admin = blocking(move || {
        AdminClient::<Context>::from_config_and_context(&config, Context::default())
    });
    let admin = admin.await.map_err(|_| KafkaError::Canceled)??;
    let resources: Vec<_> =
        topics.iter().map(|topic| ResourceSpecifier::Topic(&topic.name)).collect();
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    let described = admin.describe_configs(&resources, &options).await;
    // Ends its thread, which takes a moment.
    _ = blocking(move || drop(admin)).await;
    described
}

fn of_topic(settings: &Settings, topic: &Topic, config: Option<&ConfigResource>) -> Vec<Finding> {
    let name = &topic.name;
    if let Some(error) = topic.error {
        let fix = format!("see to it that the user may describe and write topic {name}");
        return vec![Finding::problem(format!("topic {name}: {error}"), fix)];
    }
    let servers = &settings.servers;
    let mut findings = Vec::new();
    if topic.replicas < REPLICAS_MIN {
        findings.push(Finding::problem(
            format!(
                "topic {name} has {} copy of each message: a lost disk loses it",
                topic.replicas
            ),
            format!(
                "give it 3 replicas: kafka-reassign-partitions.sh --bootstrap-server {servers} \
                 --reassignment-json-file … --execute"
            ),
        ));
    } else {
        let Topic { partitions, replicas, .. } = topic;
        findings.push(Finding::ok(format!(
            "topic {name} has {partitions} partitions with {replicas} replicas"
        )));
    }
    let Some(config) = config else {
        findings.push(Finding::problem(
            format!("the settings of topic {name} cannot be seen"),
            format!(
                "kafka-acls.sh --bootstrap-server {servers} --add --allow-principal User:… \
                 --operation DescribeConfigs --topic {name}"
            ),
        ));
        return findings;
    };
    findings.extend(of_settings(servers, name, config));
    findings
}

fn of_settings(servers: &str, name: &str, config: &ConfigResource) -> Vec<Finding> {
    let value = |key: &str| config.get(key).and_then(|entry| entry.value.as_deref());
    let change = |setting: &str| {
        format!(
            "kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics \
             --entity-name {name} --add-config {setting}"
        )
    };
    let mut findings = Vec::new();
    let in_sync: usize =
        value("min.insync.replicas").and_then(|text| text.parse().ok()).unwrap_or(1);
    findings.push(if in_sync < REPLICAS_MIN {
        Finding::problem(
            format!(
                "topic {name} acknowledges what a single server has \
                 (min.insync.replicas = {in_sync}): if that one is lost, so is the message"
            ),
            change("min.insync.replicas=2"),
        )
    } else {
        Finding::ok(format!("topic {name} acknowledges what {in_sync} servers have"))
    });
    if value("unclean.leader.election.enable") == Some("true") {
        findings.push(Finding::problem(
            format!("topic {name} may be led by a server that has not everything"),
            change("unclean.leader.election.enable=false"),
        ));
    }
    let bytes: usize = value("max.message.bytes").and_then(|text| text.parse().ok()).unwrap_or(0);
    let smaller = if bytes < PAYLOAD_BYTES_MAX {
        format!(": larger ones are rejected ({})", change("max.message.bytes=9000000"))
    } else {
        String::new()
    };
    findings.push(Finding::ok(format!("topic {name} takes messages up to {bytes} bytes{smaller}")));
    findings
}

fn missing(settings: &Settings, pattern: &TopicPattern) -> Finding {
    let text = pattern.as_str();
    if !is_topic(&text.replace('*', "x")) {
        return Finding::problem(
            format!("no topic of Kafka can be called {text}"),
            "use letters, digits, dots, underscores and hyphens, 249 at most; `destination` maps names",
        );
    }
    let (what, name) = if text.contains('*') {
        (format!("no topic matches {text}"), "…")
    } else {
        (format!("topic {text} is missing"), text)
    };
    let servers = &settings.servers;
    let fix = format!(
        "kafka-topics.sh --bootstrap-server {servers} --create --topic {name} --partitions 12 \
         --replication-factor 3 --config min.insync.replicas=2"
    );
    Finding::problem(what, fix)
}

fn advice(class: &str) -> &'static str {
    match class {
        "auth" => "check user, password and sasl_mechanism, and that the user may describe topics",
        "tls" => "check that ca_file holds the server's authority, and that its name is in the URL",
        _ => "check host and port, and that `security` is what the listener speaks",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_topic_is_a_problem_with_a_command() {
        let settings = Settings::check(&crate::Config::new("kafka://one:9092")).unwrap();
        let exact = missing(&settings, &"orders".parse().unwrap());
        assert!(!exact.ok && exact.what.contains("orders is missing"));
        assert!(exact.fix.unwrap().contains("--bootstrap-server one:9092 --create --topic orders"));
        let odd = missing(&settings, &"a b".parse().unwrap());
        assert!(odd.what.contains("can be called"));
    }
}

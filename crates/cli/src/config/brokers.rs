//! Reads `[[broker]]`: the keys that all brokers share, and the keys of the adapter that the scheme
//! of the URL chooses.

use std::path::PathBuf;

use posthaste_broker_http as http;
#[cfg(feature = "kafka")]
use posthaste_broker_kafka as kafka;
use posthaste_broker_memory::MemoryBroker;
use posthaste_broker_mqtt as mqtt;
use posthaste_broker_nats as nats;
use posthaste_broker_rabbitmq as rabbitmq;
use posthaste_broker_redis as redis;
use posthaste_broker_tcp as tcp;
use posthaste_wire::{Destination, Profile, Wire};

use super::{
    BrokerConfig, Problem, SecretUrl,
    read::{Reading, Section},
    setting::ByteSize,
    validate::{self, Names},
};
use crate::brokers::{Adapter, SCHEMES};

/// Reads one `[[broker]]`.
pub(crate) fn read_broker(
    mut section: Section<'_>,
    names: &mut Names,
    reading: &mut Reading,
) -> Option<BrokerConfig> {
    let name = section.required("name", "give the broker a name that routes can use", reading);
    names.check(&section, name.as_ref(), &mut reading.problems);
    let found = reading.problems.len();
    let url = validate::url(&mut section, reading);
    if url.is_none() && reading.problems.len() == found {
        let what = format!("`{}` is missing", section.key("url"));
        let problem = Problem::new("PH-2006", what).at(&section.place());
        reading.problems.push(problem.help("for example \"stdout:\""));
    }
    let url = url?;
    let (key, origin) = (section.key("url"), section.origin("url"));
    if !validate::scheme(&key, &url, SCHEMES, &origin, &mut reading.problems) {
        // The known keys depend on the scheme, so the other keys cannot be checked.
        return None;
    }
    let adapter = read_adapter(&url, &mut section, reading)?;
    let path = section.path.clone();
    section.finish(reading);
    if let Err(invalid) = adapter.open(&MemoryBroker::new()) {
        let what =
            format!("`{path}.{}` is {:?}: it {}", invalid.field, invalid.value, invalid.rule);
        reading.problems.push(Problem::new("PH-2015", what).at(&origin));
        return None;
    }
    Some(BrokerConfig { name: name?, adapter })
}

fn read_adapter(
    url: &SecretUrl,
    section: &mut Section<'_>,
    reading: &mut Reading,
) -> Option<Adapter> {
    let scheme = url.scheme();
    match scheme {
        "stdout" => return Some(Adapter::Stdout),
        "null" => return Some(Adapter::Null),
        "memory" => return Some(Adapter::Memory),
        "tcp" => return Some(read_tcp(url, section, reading)),
        _ => {}
    }
    let common = read_common(section, reading);
    match scheme {
        "amqp" | "amqps" => Some(read_rabbitmq(url, common, section, reading)),
        "nats" | "tls" => Some(read_nats(url, common, section, reading)),
        "redis" | "rediss" => Some(read_redis(url, common, section, reading)),
        "mqtt" | "mqtts" => Some(read_mqtt(url, common, section, reading)),
        "http" | "https" => Some(read_http(url, common, section, reading)),
        _ => read_kafka(url, common, section, reading),
    }
}

fn read_rabbitmq(
    url: &SecretUrl,
    Common { wire, ca_file }: Common,
    section: &mut Section<'_>,
    reading: &mut Reading,
) -> Adapter {
    let default = rabbitmq::Config::new(&url.0);
    Adapter::RabbitMq(rabbitmq::Config {
        wire,
        ca_file,
        exchange: section.or("exchange", default.exchange, reading),
        declare: section.or("declare", default.declare, reading),
        ordering: section.word("ordering", default.ordering, &rabbitmq::Ordering::ALL, reading),
        queue_type: section.word(
            "queue_type",
            default.queue_type,
            &rabbitmq::QueueType::ALL,
            reading,
        ),
        attribute_prefix: section.word(
            "attribute_prefix",
            default.attribute_prefix,
            &rabbitmq::AttributePrefix::ALL,
            reading,
        ),
        url: default.url,
    })
}

fn read_nats(
    url: &SecretUrl,
    Common { wire, ca_file }: Common,
    section: &mut Section<'_>,
    reading: &mut Reading,
) -> Adapter {
    Adapter::Nats(nats::Config {
        wire,
        ca_file,
        stream: section.get("stream", reading),
        credentials_file: section.get("credentials_file", reading),
        ..nats::Config::new(&url.0)
    })
}

fn read_redis(
    url: &SecretUrl,
    Common { wire, ca_file }: Common,
    section: &mut Section<'_>,
    reading: &mut Reading,
) -> Adapter {
    let default = redis::Config::new(&url.0);
    Adapter::Redis(redis::Config {
        wire,
        ca_file,
        max_length: section.get::<u32>("max_length", reading).map(u64::from),
        wait_replicas: section.or("wait_replicas", default.wait_replicas, reading),
        url: default.url,
    })
}

fn read_mqtt(
    url: &SecretUrl,
    Common { wire, ca_file }: Common,
    section: &mut Section<'_>,
    reading: &mut Reading,
) -> Adapter {
    let default = mqtt::Config::new(&url.0);
    Adapter::Mqtt(mqtt::Config {
        wire,
        ca_file,
        client_id: section.get("client_id", reading),
        unmatched: section.word("unmatched", default.unmatched, &mqtt::Unmatched::ALL, reading),
        ordering: section.word("ordering", default.ordering, &mqtt::Ordering::ALL, reading),
        url: default.url,
    })
}

fn read_http(
    url: &SecretUrl,
    Common { wire, ca_file }: Common,
    section: &mut Section<'_>,
    reading: &mut Reading,
) -> Adapter {
    let secrets = validate::secrets(section, reading);
    let default = http::Config::new(&url.0, secrets);
    let connections = section.within("connections", default.connections, 1..=10_000, reading);
    Adapter::Http(http::Config {
        wire,
        ca_file,
        allow_private: section.or("allow_private", default.allow_private, reading),
        connections,
        ..default
    })
}

/// TCP has neither a destination nor TLS: their keys are unknown here.
fn read_tcp(url: &SecretUrl, section: &mut Section<'_>, reading: &mut Reading) -> Adapter {
    let default = tcp::Config::new(&url.0);
    let size = |bytes: usize| ByteSize(bytes as u64);
    let bounds = size(tcp::Config::FRAME_BYTES_MAX_MIN)..=size(tcp::Config::FRAME_BYTES_MAX_MAX);
    let max = section.within("frame_bytes_max", size(default.frame_bytes_max), bounds, reading);
    Adapter::Tcp(tcp::Config {
        wire: Wire {
            profile: section.word("profile", default.wire.profile, &Profile::ALL, reading),
            source: section.or("source", default.wire.source, reading),
            ..default.wire
        },
        frames: section.word("frames", default.frames, &tcp::Frames::ALL, reading),
        frame_bytes_max: usize::try_from(max.0).unwrap_or(default.frame_bytes_max),
        url: default.url,
    })
}

#[cfg(feature = "kafka")]
fn read_kafka(
    url: &SecretUrl,
    Common { wire, ca_file }: Common,
    section: &mut Section<'_>,
    reading: &mut Reading,
) -> Option<Adapter> {
    let default = kafka::Config::new(&url.0);
    let words = &kafka::Compression::ALL;
    Some(Adapter::Kafka(kafka::Config {
        wire,
        ca_file,
        compression: section.word("compression", default.compression, words, reading),
        url: default.url,
    }))
}

#[cfg(not(feature = "kafka"))]
fn read_kafka(
    _: &SecretUrl,
    _: Common,
    section: &mut Section<'_>,
    reading: &mut Reading,
) -> Option<Adapter> {
    let what = format!(
        "`{}` is a kafka: URL, but this program was built without Kafka",
        section.key("url")
    );
    let problem = Problem::new("PH-2010", what).at(&section.origin("url"));
    reading.problems.push(problem.help("build the program with `--features kafka`"));
    None
}

/// The keys that all real brokers share: the wire form and the trusted certificates.
struct Common {
    wire: Wire,
    ca_file: Option<PathBuf>,
}

fn read_common(section: &mut Section<'_>, reading: &mut Reading) -> Common {
    let default = Wire::default();
    let profile = section.word("profile", default.profile, &Profile::ALL, reading);
    let destination = match profile {
        Profile::Debezium => "outbox.event.{topic}".parse().unwrap_or_default(),
        _ => Destination::default(),
    };
    let wire = Wire {
        profile,
        source: section.or("source", default.source, reading),
        destination: section.or("destination", destination, reading),
    };
    Common { wire, ca_file: section.get("ca_file", reading) }
}

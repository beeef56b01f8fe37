//! What must not be left behind in the process: threads of connections, and payloads in its log.

mod support;

use std::{
    fs, io,
    sync::{Arc, Mutex},
    time::Duration,
};

use posthaste_broker_rabbitmq::Config;
use posthaste_core::{Broker, Message, Outcome};
use posthaste_fixtures::{Kind, Proxy, server};
use support::{PATIENCE, broker, delivery, publish_one, publish_within, routed, told, unique};
use tracing_subscriber::fmt::MakeWriter;

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Threads of the driver in this process.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux").flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("lapin")).count()
}

/// One test, because both look at the whole process.
#[tokio::test(flavor = "multi_thread")]
async fn neither_a_payload_in_the_log_nor_a_thread_is_left_behind() {
    let log = Log::default();
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).init();
    let url = server(Kind::RabbitMq).url();
    let secret = b"hunter2";
    // An exchange of its own: others bind whatever they like to the usual one.
    let publisher = broker(Config { exchange: unique("nowhere"), ..Config::new(url) });
    let unroutable = Message::from_bytes("nowhere", None, secret.to_vec()).header("h", "hunter2");
    let outcomes = publisher.publish(&[delivery(unroutable)], PATIENCE).await;
    assert_eq!(told(&outcomes[0]), ("rejected", "unroutable"));
    publisher.close().await;
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    let as_numbers = format!("{secret:?}");
    assert!(!logged.contains("hunter2") && !logged.contains(as_numbers.trim_matches(['[', ']'])));

    // A server that accepts and never says a word, time and again.
    let target = url.rsplit('@').next().unwrap();
    let proxy = Proxy::start(target).await.unwrap();
    let (config, ..) = routed(url).await;
    let mute = broker(Config { url: url.replace(target, &proxy.address().to_string()), ..config });
    assert_eq!(publish_one(&mute, "t").await, Outcome::Acked);
    proxy.black_hole();
    for _ in 0..10 {
        publish_within(&mute, "t", Duration::from_millis(200)).await;
    }
    drop(mute);
    let gone = async {
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        while threads() > 0 {
            tick.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("no thread outlives its connection");
}

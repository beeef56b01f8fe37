//! Sessions: one connection each, which is never mended, only replaced.
//!
//! The driver would mend it by itself and then send what it still holds, long after we reported
//! those messages as unknown and perhaps sent them again. So it is kept from reconnecting, and its
//! tasks live in a runtime of their own: ending that ends them and closes the socket at once,
//! whatever they wait for. Dropping the driver's handle does not: a task that cannot write stays
//! until it can, and then writes.

use std::{
    collections::HashSet,
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{
    Client, ConnectOptions, Event, ServerError,
    jetstream::{self, context::ContextBuilder},
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
    time::timeout,
};

use crate::{
    answers::Answers,
    config::{Identity, Settings},
    outcome::Trouble,
    streams::Streams,
};

/// Longer than any session lasts.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// A connection whose server answers none of three pings is given up.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Answers that may wait to be taken in. More than a relay's shards have on their way.
const ANSWERS_MAX: usize = 1 << 20;
/// Time for the driver's tasks to end. They never need it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Subjects remembered that we may not publish to.
const DENIED_MAX: usize = 1024;

/// What the server or the socket told us unasked.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// The connection is lost.
    pub(crate) is_down: bool,
    /// Subjects that the server does not let us publish to.
    pub(crate) denied: HashSet<String>,
}

/// A connection in use.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) context: jetstream::Context,
    /// Of what is published here.
    pub(crate) answers: Answers,
    pub(crate) streams: Streams,
    /// Largest message with its headers, as the server says.
    pub(crate) bytes_max: usize,
    health: watch::Sender<Health>,
    tasks: Tasks,
}

/// The runtime that the driver's tasks live in.
struct Tasks {
    runtime: Mutex<Option<Runtime>>,
    /// Its sender is gone when the socket is.
    socket: watch::Receiver<()>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.end();
    }
}

impl Tasks {
    fn end(&self) {
        let mut runtime = self.runtime.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(runtime) = runtime.take() {
            runtime.shutdown_background();
        }
    }

    fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<tokio::task::JoinHandle<T>> {
        let runtime = self.runtime.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        runtime.as_ref().map(|runtime| runtime.spawn(future))
    }
}

impl Session {
    /// Connects and makes sure that JetStream is there.
    pub(crate) async fn dial(settings: &Settings, within: Duration) -> Result<Self, Trouble> {
        match timeout(within, Self::dial_any(settings, within)).await {
            Ok(dialled) => dialled,
            Err(_) => Err(Trouble::NotDialled),
        }
    }

    async fn dial_any(settings: &Settings, within: Duration) -> Result<Self, Trouble> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("posthaste-nats").enable_all();
        let runtime = builder.build().map_err(|error| Trouble::Local(error.to_string()))?;
        let (socket_sender, socket) = watch::channel(());
        let tasks = Tasks { runtime: Mutex::new(Some(runtime)), socket };
        let health = watch::Sender::new(Health::default());
        let is_connected = Arc::new(AtomicBool::new(false));
        let connecting = tasks.spawn({
            let (settings, health) = (settings.clone(), health.clone());
            async move {
                let delay = {
                    let is_connected = is_connected.clone();
                    move |_| {
                        // Held by the task that owns the socket, and dropped with it.
                        let _ = &socket_sender;
                        if is_connected.load(Ordering::Acquire) { NEVER } else { Duration::ZERO }
                    }
                };
                let noting = {
                    let health = health.clone();
                    move |event| {
                        note(&health, &event);
                        std::future::ready(())
                    }
                };
                // Here, because it reads files.
                let options = options(&settings, within)?;
                let options = options.event_callback(noting).reconnect_delay_callback(delay);
                let client = options.connect(settings.servers).await.map_err(Trouble::Dial)?;
                is_connected.store(true, Ordering::Release);
                // Bounded by the caller's deadline instead.
                let context = ContextBuilder::new().timeout(NEVER).build(client.clone());
                let answers = Answers::new(client.new_inbox());
                let subscribed = client.subscribe(answers.pattern()).await;
                let subscriber = subscribed.map_err(|error| Trouble::Local(error.to_string()))?;
                let collecting = answers.collect(subscriber);
                tokio::spawn(async move {
                    collecting.await;
                    // Without it nothing is answered any more.
                    health.send_modify(|health| health.is_down = true);
                });
                Ok((client, context, answers))
            }
        });
        let Some(connecting) = connecting else { return Err(Trouble::NotDialled) };
        let (client, context, answers) =
            connecting.await.map_err(|error| Trouble::Local(error.to_string()))??;
        let bytes_max = client.server_info().max_payload;
        let streams = Streams::new(client.server_info());
        let session = Self { client, context, answers, streams, bytes_max, health, tasks };
        session.find_jetstream().await?;
        Ok(session)
    }

    /// Runs the future where the driver's tasks live, so that what it spawns ends with them.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Trouble> {
        let task = self.tasks.spawn(future).ok_or(Trouble::Lost)?;
        task.await.map_err(|_| Trouble::Lost)
    }

    pub(crate) fn is_down(&self) -> bool {
        self.health.borrow().is_down
    }

    /// Waits until the connection is lost.
    pub(crate) async fn lost(&self) {
        let mut health = self.health.subscribe();
        // An error: nobody is left to lose it.
        let _ = health.wait_for(|health| health.is_down).await;
    }

    /// Waits until a message for this subject has no answer to expect any more.
    pub(crate) async fn no_answer(&self, subject: &str) -> Trouble {
        let is_denied = |health: &Health| health.denied.contains(subject);
        let mut health = self.health.subscribe();
        match health.wait_for(|health| health.is_down || is_denied(health)).await {
            Ok(health) if is_denied(&health) => Trouble::Denied(subject.to_owned()),
            _ => Trouble::Lost,
        }
    }

    /// Waits until the connection is lost. Tells meanwhile, whenever there is another, which subjects we
    /// may not publish to: to these, nothing is answered.
    pub(crate) async fn no_answers(&self, mut told: impl FnMut(&dyn Fn(&str) -> bool)) {
        let mut health = self.health.subscribe();
        loop {
            {
                let health = health.borrow_and_update();
                if health.is_down {
                    return;
                }
                if !health.denied.is_empty() {
                    told(&|subject| health.denied.contains(subject));
                }
            }
            if health.changed().await.is_err() {
                return;
            }
        }
    }

    /// Closes the socket. What the driver has not written is never written.
    pub(crate) async fn close(&self) {
        self.tasks.end();
        self.health.send_modify(|health| health.is_down = true);
        let mut socket = self.tasks.socket.clone();
        // An error: the sender is gone.
        let gone = async { while socket.changed().await.is_ok() {} };
        let _ = timeout(CLOSE_TIMEOUT, gone).await;
    }
}

fn note(health: &watch::Sender<Health>, event: &Event) {
    match event {
        Event::Disconnected | Event::Closed => {
            health.send_modify(|health| health.is_down = true);
        }
        Event::ServerError(ServerError::Other(text)) => {
            if let Some(subject) = denied_subject(text) {
                health.send_modify(|health| {
                    if health.denied.len() < DENIED_MAX {
                        health.denied.insert(subject.to_owned());
                    }
                });
            }
        }
        _ => {}
    }
}

/// The subject of `Permissions Violation for Publish to "subject"`.
fn denied_subject(text: &str) -> Option<&str> {
    let (head, rest) = text.split_once('"')?;
    let is_denial = head.to_ascii_lowercase().starts_with("permissions violation for publish to");
    rest.split_once('"').map(|(subject, _)| subject).filter(|_| is_denial)
}

fn options(settings: &Settings, within: Duration) -> Result<ConnectOptions, Trouble> {
    let servers = u32::try_from(settings.servers.len()).unwrap_or(u32::MAX).max(1);
    let options = ConnectOptions::new()
        .name("posthaste")
        // So that one that does not answer leaves time for the others.
        .connection_timeout(within / servers)
        .ping_interval(PING_INTERVAL)
        .request_timeout(None)
        .subscription_capacity(ANSWERS_MAX)
        .require_tls(settings.requires_tls)
        .ignore_discovered_servers()
        .tls_client_config(settings.tls.clone());
    Ok(match &settings.identity {
        Identity::Nobody => options,
        Identity::Token(token) => options.token(token.clone()),
        Identity::User { name, password } => {
            options.user_and_password(name.clone(), password.clone())
        }
        Identity::CredentialsFile(path) => {
            let unusable = |error: std::io::Error| {
                Trouble::Credentials(format!("credentials_file {}: {error}", path.display()))
            };
            let text = fs::read_to_string(path).map_err(unusable)?;
            options.credentials(&text).map_err(unusable)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_names_its_subject() {
        let text = "Permissions Violation for Publish to \"a.b\"";
        assert_eq!(denied_subject(text), Some("a.b"));
        assert_eq!(denied_subject("Permissions Violation for Subscription to \"a.b\""), None);
        assert_eq!(denied_subject("Unknown Protocol Operation"), None);
    }
}

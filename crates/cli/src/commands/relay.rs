//! `relay`: opens the store and the brokers of the configuration, and delivers until a signal.

use std::{process::ExitCode, sync::Arc, time::Duration};

use posthaste_core::{Backoff, Store, StoreError, log_seconds};
use posthaste_relay::{Error, Relay};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    args::RelayArgs,
    brokers::Brokers,
    config::{Config, Inputs, Needs, SecretUrl},
    log,
    output::{Fault, NO, Terminal, UNREACHABLE},
    serve::{self, Board},
    stores::Database,
};

/// Pauses between attempts to reach the store at the start.
const RECONNECT: Backoff =
    Backoff { initial: Duration::from_millis(500), max: Duration::from_secs(15) };

/// Runs it.
///
/// # Errors
/// When the configuration or the store make serving impossible.
pub(crate) async fn run(
    args: &RelayArgs,
    inputs: &Inputs,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<ExitCode> {
    let config = super::load(inputs, Needs::Relay, terminal)?;
    log::start(config.log_format, config.log_level);
    let stop = CancellationToken::new();
    let mut signals = Signals::listen()?;
    let work = async {
        let result = if args.once {
            once(config, stop.clone()).await
        } else {
            serve(config, stop.clone()).await
        };
        stop.cancel();
        result
    };
    tokio::select! {
        result = Box::pin(work) => result.map(|()| ExitCode::SUCCESS),
        code = signals.obey(&stop) => Ok(ExitCode::from(code)),
    }
}

/// Delivers the waiting messages and ends. An unreachable store is an error: cron or a person
/// starts the command again.
async fn once(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    let store = super::open(&config).await?;
    build(config, store).run_once(stop).await.map_err(reason)?;
    Ok(())
}

async fn serve(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    let board = Board::new(config.relay.poll, config.relay.lease)?;
    let tasks = TaskTracker::new();
    if let Some(listen) = config.listen {
        let listener = serve::listen(listen).await?;
        let address = listener.local_addr()?;
        tracing::info!(%address, "serving /metrics, /livez, /readyz and /version");
        tasks.spawn(serve::run(listener, board.clone(), stop.clone()));
    }
    let Some(store) = reach(super::url(&config), &board, &stop).await? else {
        return Ok(());
    };
    let refresh = (board.clone(), Arc::clone(&store), stop.clone());
    tasks.spawn(async move { refresh.0.refresh(refresh.1, refresh.2).await });
    let relay = build(config, store);
    board.set_relay(relay.handle());
    relay.run(stop.clone()).await.map_err(reason)?;
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    Ok(())
}

/// Opens and checks the store, and repeats that while it cannot be reached; `None` if told to stop.
async fn reach(
    url: &SecretUrl,
    board: &Board,
    stop: &CancellationToken,
) -> Result<Option<Arc<dyn Store>>, StoreError> {
    let mut random = fastrand::Rng::new();
    let mut failures = 0;
    loop {
        let opened = async {
            let store = Database::open(url).await?.store();
            store.check().await.map(|()| store)
        };
        let error = match stop.run_until_cancelled(opened).await {
            None => return Ok(None),
            Some(Ok(store)) => {
                board.set_store(Ok(()));
                return Ok(Some(store));
            }
            Some(Err(error)) if !error.is_retryable() => return Err(error),
            Some(Err(error)) => error,
        };
        failures += 1;
        // Never shorter than the first pause, so that unlucky jitter does not fill the log.
        let pause = RECONNECT.delay(failures, &mut random).max(RECONNECT.initial);
        let retry_in_seconds = log_seconds(pause);
        tracing::warn!(%error, attempt = failures, retry_in_seconds, "the store cannot be used, trying again");
        board.set_store(Err(error.to_string()));
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return Ok(None);
        }
    }
}

fn build(config: Config, store: Arc<dyn Store>) -> Relay {
    let brokers = Brokers::open(&config.brokers);
    let routes = config.routes.iter().map(|route| brokers.route(route));
    Relay::new(store, routes.collect(), config.relay)
}

/// The error that ended the relay, with its exit code.
fn reason(error: Error) -> anyhow::Error {
    let message = error.to_string();
    match error {
        Error::Store(error) => error.into(),
        Error::Unreachable { .. } => {
            Fault::new(UNREACHABLE, message).help("`posthaste doctor` checks every broker").into()
        }
        Error::Busy { .. } => Fault::new(NO, message)
            .help("`posthaste status` names that relay; it delivers the waiting messages")
            .into(),
    }
}

/// SIGINT and SIGTERM.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Stops on the first signal; returns on the second, with the exit code shells use for it.
    async fn obey(&mut self, stop: &CancellationToken) -> u8 {
        self.next().await;
        tracing::info!(
            "stopping: waiting for the messages in flight; a second signal stops at once"
        );
        stop.cancel();
        let code = self.next().await;
        tracing::warn!("stopped at once: messages that were in flight may be sent again");
        code
    }

    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }
}

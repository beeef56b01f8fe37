//! A service from its start to its end.

use std::{
    future::{Future, pending},
    net::SocketAddr,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use async_trait::async_trait;
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::future::BoxFuture;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tracing::Level;
use utoipa::openapi::OpenApi;

use crate::{Environment, Problem, docs, log, observe::Metrics, server};

/// Time between two tidyings of the metrics.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Time for the background work to end after the stop signal.
pub const BESIDE_DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a service can do its work.
#[async_trait]
pub trait Ready: Send + Sync {
    /// `Err` has the reason, in words that may be shown to clients.
    async fn ready(&self) -> Result<(), String>;
}

/// What makes a service out of a router.
pub struct Service {
    /// Names of metrics start with it.
    pub metrics_prefix: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its routes.
    pub router: Router,
    /// Their description; none for a program that only works.
    pub api: Option<OpenApi>,
    /// For `/readyz`.
    pub ready: Arc<dyn Ready>,
    /// Background work of a service.
    pub beside: Beside,
}

/// Background work from the start, such as creating the tables. The service goes on when the work
/// ends, and ends when the work fails. When the service is told to stop, the token is cancelled,
/// and the work has [`BESIDE_DRAIN_TIMEOUT`] to end before it is dropped.
pub type Beside =
    Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, anyhow::Result<()>> + Send>;

impl Service {
    /// The address to listen on: `SERVER_HOST`, loopback unless set, and `SERVER_PORT`.
    pub fn address(environment: &mut Environment, port_default: u16) -> SocketAddr {
        let loopback = std::net::Ipv4Addr::LOCALHOST.into();
        let host = environment.parse("SERVER_HOST", loopback, "an IP address");
        let port = environment.parse("SERVER_PORT", port_default, "a port, 0 to 65535");
        SocketAddr::new(host, port)
    }
}

/// Work that can be dropped at any time, as [`Beside`].
pub fn until_stopped<F>(work: F) -> Beside
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    Box::new(|stop| {
        Box::pin(async move { stop.run_until_cancelled_owned(work).await.unwrap_or(Ok(())) })
    })
}

/// What `main` of a service does: read the environment, start logging, run, log the error, and the
/// exit code. `name` is the crate whose lines are logged at `LOG_LEVEL`.
pub async fn main<F>(name: &str, start: impl FnOnce(Environment) -> F) -> ExitCode
where
    F: Future<Output = anyhow::Result<()>>,
{
    let mut environment = Environment::of_process();
    let level = environment.parse("LOG_LEVEL", Level::INFO, "error, warn, info, debug or trace");
    log::start(name, level);
    match start(environment).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(reason = format!("{error:#}"), "ended");
            ExitCode::FAILURE
        }
    }
}

/// Runs a service until SIGINT or SIGTERM, and lets it finish what it has begun.
///
/// # Errors
/// When the service cannot listen on the address, or the background work fails.
pub async fn run(service: Service) -> anyhow::Result<()> {
    let Service { metrics_prefix, address, router, api, ready, beside } = service;
    let metrics = Metrics::install(metrics_prefix)?;
    let mut router = router.merge(utilities(metrics.clone(), ready));
    if let Some(api) = api {
        router = router.merge(docs::router(api));
    }
    let router = server::layered(router, &metrics);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("SERVER_HOST and SERVER_PORT name {address}"))?;
    tracing::info!(address = %listener.local_addr()?, "listening");
    let stop = CancellationToken::new();
    let late = async {
        stop.cancelled().await;
        sleep(BESIDE_DRAIN_TIMEOUT).await;
    };
    let working = async {
        tokio::select! {
            result = beside(stop.clone()) => return result,
            () = late => {}
        }
        tracing::warn!("stopped before background work ended; it is repeated after the next start");
        Ok(())
    };
    let upkeep = async {
        let mut ticks = tokio::time::interval(UPKEEP_EVERY);
        loop {
            ticks.tick().await;
            metrics.upkeep();
        }
    };
    let signalled = async {
        signals().await?;
        stop.cancel();
        pending().await
    };
    let serving = async {
        server::serve(listener, router, stop.clone()).await;
        Ok(())
    };
    tokio::select! {
        result = async { tokio::try_join!(serving, working) } => drop(result?),
        result = signalled => return result,
        () = upkeep => {}
    }
    tracing::info!("stopped");
    Ok(())
}

/// Waits for the order to stop.
async fn signals() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

fn utilities(metrics: Metrics, ready: Arc<dyn Ready>) -> Router {
    let metrics = get(async move || {
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        ([(header::CONTENT_TYPE, kind)], metrics.render())
    });
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(ready)
        .route("/metrics", metrics)
}

async fn readyz(State(ready): State<Arc<dyn Ready>>) -> Response {
    match ready.ready().await {
        Ok(()) => "ok\n".into_response(),
        Err(why) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not ready").detail(why).into_response()
        }
    }
}

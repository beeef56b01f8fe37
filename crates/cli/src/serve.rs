//! The relay's HTTP server: metrics, health, version. It listens on loopback unless configured
//! otherwise, is read-only, and no request touches the database.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use posthaste_core::Store;
use posthaste_relay::{Handle, Health, RouteState};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    config::Listen,
    gauges,
    output::{Fault, NO, span},
    version,
};

/// Number of ports after the default port that are tried if it is in use, so that scrapers can list
/// them.
const PORTS_TRIED: u16 = 9;
/// Time between two reads of the store for gauges.
const GAUGES_EVERY: Duration = Duration::from_secs(2);
/// Buckets for durations within a process or a network.
const SHORT_SECONDS: [f64; 11] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// Buckets for durations that can include an outage.
const LONG_SECONDS: [f64; 12] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0];
/// Buckets for numbers of messages.
const MESSAGES: [f64; 6] = [0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0];

/// The state from which requests are answered.
#[derive(Clone)]
pub(crate) struct Board {
    metrics: PrometheusHandle,
    /// Greatest age of the last tick at which the relay counts as alive.
    tick_max: Duration,
    /// Set once the relay runs; until then it waits for its store.
    relay: Arc<OnceLock<Handle>>,
    /// Result of the last read of the store; the lock is held only to copy it.
    store: Arc<Mutex<Result<(), String>>>,
}

impl Board {
    /// A board, and with it the process's metrics recorder.
    ///
    /// # Errors
    /// When the process has a recorder already.
    pub(crate) fn new(poll: Duration, lease: Duration) -> anyhow::Result<Self> {
        let full = |name: &str| Matcher::Full(name.to_owned());
        let suffix = |name: &str| Matcher::Suffix(name.to_owned());
        let metrics = PrometheusBuilder::new()
            .set_buckets_for_metric(suffix("_seconds"), &SHORT_SECONDS)?
            .set_buckets_for_metric(full("posthaste_delivery_latency_seconds"), &LONG_SECONDS)?
            .set_buckets_for_metric(suffix("_messages"), &MESSAGES)?
            .install_recorder()?;
        gauges::describe();
        Ok(Self {
            metrics,
            tick_max: 3 * poll + lease,
            relay: Arc::default(),
            store: Arc::new(Mutex::new(Err("the store has not answered yet".to_owned()))),
        })
    }

    /// Records that the relay runs.
    pub(crate) fn set_relay(&self, handle: Handle) {
        // A process has one relay: a second one would be a bug that changes nothing.
        let _ = self.relay.set(handle);
    }

    /// Records the result of the last store call.
    pub(crate) fn set_store(&self, state: Result<(), String>) {
        gauges::store_up(state.is_ok());
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Refreshes the gauges that come from the store, until stopped.
    pub(crate) async fn refresh(&self, store: Arc<dyn Store>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(GAUGES_EVERY);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let state = store.status().await.map(|status| gauges::set(&status));
            self.set_store(state.map_err(|error| error.to_string()));
            self.metrics.run_upkeep();
        }
    }

    /// The reason why the relay is not ready; `None` if it is ready.
    fn unready(&self) -> Option<String> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(reason) = store.clone() {
            return Some(reason);
        }
        drop(store);
        let Some(relay) = self.relay.get() else {
            return Some("the relay is starting".to_owned());
        };
        unready(&relay.health())
    }
}

/// Listens on the configured address. If none is configured and the default port is in use, for
/// example by another relay of this machine, listens on one of the next ports, or on any free port.
///
/// # Errors
/// When it cannot listen on the address; the error names the configuration key.
pub(crate) async fn listen(listen: Listen) -> Result<TcpListener, Fault> {
    let error = match TcpListener::bind(listen.address).await {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    if !listen.is_named && error.kind() == io::ErrorKind::AddrInUse {
        let port = listen.address.port();
        for port in (port + 1..=port + PORTS_TRIED).chain([0]) {
            let address = SocketAddr::new(listen.address.ip(), port);
            if let Ok(listener) = TcpListener::bind(address).await {
                let taken = listen.address;
                tracing::warn!(%taken, "the default address is in use: serving metrics on another \
                    port; set `http.listen` to choose one");
                return Ok(listener);
            }
        }
    }
    let message = format!("[PH-2014] `http.listen` is {}: {error}", listen.address);
    Err(Fault::new(NO, message).help(
        "choose another address, 127.0.0.1:0 for any free port, or \"off\"; \
         POSTHASTE_HTTP__LISTEN sets it for one start",
    ))
}

/// Answers requests until stopped.
///
/// # Errors
/// When the listener fails.
pub(crate) async fn run(
    listener: TcpListener,
    board: Board,
    stop: CancellationToken,
) -> io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/version", get(version_of_this))
        .with_state(board);
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn metrics(State(board): State<Board>) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], board.metrics.render()).into_response()
}

async fn livez(State(board): State<Board>) -> Response {
    let Some(health) = board.relay.get().map(Handle::health) else {
        // While the relay waits for its store there is no loop that could hang.
        return (StatusCode::OK, "ok: starting\n").into_response();
    };
    match health.ticked {
        // A failing store is no reason to restart the relay: a restart would not help.
        Some(ticked) if ticked > board.tick_max && health.store_failure.is_none() => {
            let text = format!("the relay's loop last ran {} ago\n", span(ticked.as_secs_f64()));
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
        _ => (StatusCode::OK, "ok\n").into_response(),
    }
}

async fn readyz(State(board): State<Board>, RawQuery(query): RawQuery) -> Response {
    let reason = board.unready();
    let code = match reason {
        None => StatusCode::OK,
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let is_verbose = query.is_some_and(|query| query.split('&').any(|p| p.starts_with("verbose")));
    if !is_verbose {
        return (code, format!("{}\n", reason.as_deref().unwrap_or("ok"))).into_response();
    }
    let health = board.relay.get().map(Handle::health);
    let routes: Vec<_> = health
        .iter()
        .flat_map(|health| &health.routes)
        .map(|route| serde_json::json!({"name": route.name, "state": route.state.as_str(), "reason": route.reason}))
        .collect();
    let body = serde_json::json!({"ready": reason.is_none(), "reason": reason, "routes": routes});
    json(code, &body)
}

async fn version_of_this() -> Response {
    let body = serde_json::json!({
        "name": "posthaste",
        "version": version::VERSION,
        "commit": version::COMMIT,
        "features": version::features(),
    });
    json(StatusCode::OK, &body)
}

fn json(code: StatusCode, body: &serde_json::Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (code, kind, format!("{body}\n")).into_response()
}

fn unready(health: &Health) -> Option<String> {
    let failure = health.store_failure.clone();
    // A route that is not registered yet, and why.
    let stuck = || {
        let route = health.routes.iter().find(|route| route.state == RouteState::Stuck)?;
        Some(format!("route {}: {}", route.name, route.reason.as_deref()?))
    };
    let starting = || stuck().unwrap_or_else(|| "the relay is starting".to_owned());
    failure.or_else(|| (!health.ready).then(starting))
}

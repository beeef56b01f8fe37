//! Counts and logs every request: its method, the route's template, the status and the time. Never
//! the address itself, which holds user ids, and never a header or a body.

use std::{sync::Arc, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::Method,
    middleware::Next,
    response::Response,
};
use metrics::{counter, describe_counter, describe_histogram, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Bounds of the buckets of request durations, in seconds.
const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The label of every address that is not a route, so that a scan makes one series.
const UNMATCHED: &str = "unmatched";

/// Routes that are asked every few seconds by machines: counted, not logged.
const SILENT: [&str; 4] = ["/metrics", "/livez", "/readyz", "/healthz"];

/// The process's metrics.
#[derive(Clone)]
pub(crate) struct Metrics {
    prometheus: PrometheusHandle,
    process: metrics_process::Collector,
    names: Arc<Names>,
}

struct Names {
    requests: String,
    seconds: String,
}

impl Metrics {
    /// Installs the recorder of this process; the names of its metrics start with `prefix`.
    ///
    /// # Errors
    /// When there is one already.
    pub(crate) fn install(prefix: &str) -> anyhow::Result<Self> {
        let prometheus = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
            .install_recorder()?;
        let names = Names {
            requests: format!("{prefix}_http_requests_total"),
            seconds: format!("{prefix}_http_request_duration_seconds"),
        };
        describe_counter!(names.requests.clone(), "requests answered");
        describe_histogram!(names.seconds.clone(), "time from a request's headers to its answer");
        posthaste::describe_metrics();
        let process = metrics_process::Collector::default();
        process.describe();
        Ok(Self { prometheus, process, names: Arc::new(names) })
    }

    /// The text Prometheus reads.
    pub(crate) fn render(&self) -> String {
        self.process.collect();
        self.prometheus.render()
    }

    /// Keeps memory bounded if the metrics are never scraped; call it every few seconds.
    pub(crate) fn upkeep(&self) {
        self.prometheus.run_upkeep();
    }
}

/// The layer that counts and logs.
pub(crate) async fn requests(
    State(metrics): State<Metrics>,
    request: Request,
    next: Next,
) -> Response {
    let start = Instant::now();
    let method = method_label(request.method());
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let path = path.unwrap_or_else(|| UNMATCHED.to_owned());
    let response = next.run(request).await;
    let seconds = start.elapsed().as_secs_f64();
    let status = response.status().as_u16();
    let names = &metrics.names;
    counter!(names.requests.clone(), "method" => method, "path" => path.clone(), "status" => status.to_string())
        .increment(1);
    histogram!(names.seconds.clone(), "method" => method, "path" => path.clone()).record(seconds);
    if !SILENT.contains(&path.as_str()) {
        tracing::info!(method, path, status, seconds, "request");
    }
    response
}

/// Clients may invent methods, and each would be a series.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "OTHER",
    }
}

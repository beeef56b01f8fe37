//! The page: the graph while it grows, and the same as files and numbers. It reads, except for
//! `POST /draw`.

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::Context;
use axum::{
    Json, Router,
    extract::{Query, State},
    http::{HeaderName, StatusCode, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::{get, post},
};
use futures::stream;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::Shown;
use crate::{
    domain::AuthorId,
    http::Between,
    plot,
    replica::{Source, Wanted},
    series::{POINTS_MAX, ROWS_MAX, Series, second},
};

/// Most pages that follow at once; each asks the replica some times a second.
const FOLLOWERS_MAX: usize = 32;
/// Least time between two pictures of a page: likes may come faster than anybody can see.
const SHOW_EVERY: Duration = Duration::from_millis(250);
/// A page moves on after this time, likes or not.
const MOVE_EVERY: Duration = Duration::from_secs(1);
/// Longest look back from now.
const LAST_SECONDS_MAX: i64 = 86_400;

#[derive(Clone)]
struct Page {
    shown: Shown,
    /// Streams end with it: a page that is left open must not keep the process alive.
    stop: CancellationToken,
    followers: Arc<Semaphore>,
}

pub(super) fn router(shown: Shown, stop: CancellationToken) -> Router {
    let followers = Arc::new(Semaphore::new(FOLLOWERS_MAX));
    let file = |kind, text: &'static str| get(async move || ([(header::CONTENT_TYPE, kind)], text));
    Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("page.html")))
        .route("/icon.svg", file("image/svg+xml", include_str!("icon.svg")))
        .route("/page.css", file("text/css", include_str!("page.css")))
        .route("/page.js", file("text/javascript", include_str!("page.js")))
        .route("/series.json", get(series))
        .route("/state.json", get(state))
        .route("/stream", get(follow))
        .route("/data.png", get(png))
        .route("/data.svg", get(svg))
        .route("/data.csv", get(csv))
        .route("/draw", post(draw))
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .layer(axum::middleware::map_response(secure))
        .with_state(Page { shown, stop, followers })
}

/// Nothing from elsewhere is loaded, and nobody shows this within their own page.
async fn secure(mut response: Response) -> Response {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, "default-src 'self'; frame-ancestors 'none'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, value.parse().expect("a constant that is one"));
    }
    response
}

/// Something failed that is not the request's fault.
struct Failure(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        tracing::error!(error = format!("{:#}", self.0), "a request failed");
        let body = Json(json!({ "error": "the graph failed; its log says why" }));
        (StatusCode::INTERNAL_SERVER_ERROR, body).into_response()
    }
}

/// Which likes a request wants.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Asked {
    /// Of this author; of all where it is missing.
    author: Option<AuthorId>,
    /// Of the last so many seconds until now.
    last: Option<i64>,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Asked {
    fn wanted(self) -> Wanted {
        let last = self.last.map(|seconds| {
            let now = second(Timestamp::now());
            (now - seconds.clamp(1, LAST_SECONDS_MAX) + 1, now)
        });
        let between = Between { from: self.from, until: self.until };
        Wanted { author: self.author, seconds: last.or(between.seconds()) }
    }
}

/// Everything a page shows.
#[derive(Serialize)]
struct Picture {
    series: Series,
    #[serde(flatten)]
    state: Numbers,
}

#[derive(Serialize)]
struct Numbers {
    /// Now, by the consumer's clock.
    now: Timestamp,
    /// Likes ever received.
    likes: i64,
    /// How many authors were ever liked.
    authors_count: i64,
    /// Likes ever received, by author, the most liked first; the first of them, where they are many.
    authors: Vec<(i64, i64)>,
    /// Messages that came again since this process began, and changed nothing.
    repeated: u64,
    /// Messages that are no likes as agreed.
    refused: i64,
    sources: Vec<Source>,
}

impl Page {
    async fn series(&self, asked: Asked, points_max: i64) -> anyhow::Result<Series> {
        Ok(self.shown.replica.series(asked.wanted(), points_max).await?)
    }

    async fn numbers(&self) -> anyhow::Result<Numbers> {
        let sources = self.shown.replica.sources().await?;
        Ok(Numbers {
            now: Timestamp::now(),
            likes: sources.iter().map(|source| source.likes).sum(),
            authors_count: self.shown.replica.authors_count().await?,
            authors: self.shown.replica.authors().await?,
            repeated: self.shown.repeated.load(Ordering::Relaxed),
            refused: self.shown.replica.refused().await?,
            sources,
        })
    }

    async fn picture(&self, asked: Asked) -> anyhow::Result<Event> {
        let series = self.series(asked, POINTS_MAX).await?;
        let picture = Picture { series, state: self.numbers().await? };
        Event::default().json_data(picture).context("a picture is JSON")
    }
}

async fn series(
    State(page): State<Page>,
    Query(asked): Query<Asked>,
) -> Result<Json<Series>, Failure> {
    Ok(Json(page.series(asked, POINTS_MAX).await?))
}

async fn state(State(page): State<Page>) -> Result<Json<Numbers>, Failure> {
    Ok(Json(page.numbers().await?))
}

async fn csv(State(page): State<Page>, Query(asked): Query<Asked>) -> Result<Response, Failure> {
    let table = page.series(asked, ROWS_MAX).await?.csv();
    Ok(([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], table).into_response())
}

async fn png(State(page): State<Page>, Query(asked): Query<Asked>) -> Result<Response, Failure> {
    let series = page.series(asked, POINTS_MAX).await?;
    let picture = tokio::task::spawn_blocking(move || plot::png(&series)).await??;
    Ok(([(header::CONTENT_TYPE, "image/png")], picture).into_response())
}

async fn svg(State(page): State<Page>, Query(asked): Query<Asked>) -> Result<Response, Failure> {
    let series = page.series(asked, POINTS_MAX).await?;
    let picture = tokio::task::spawn_blocking(move || plot::svg(&series)).await??;
    Ok(([(header::CONTENT_TYPE, "image/svg+xml")], picture).into_response())
}

async fn draw(State(page): State<Page>) -> Result<Response, Failure> {
    let written = page.shown.draw().await?;
    let names: Vec<_> = written.iter().map(|path| path.display().to_string()).collect();
    Ok(Json(json!({ "written": names })).into_response())
}

async fn ready(State(page): State<Page>) -> Result<&'static str, Failure> {
    page.shown.replica.refused().await?;
    Ok("ok\n")
}

/// The picture at once, and again when likes have come, and every second.
async fn follow(State(page): State<Page>, Query(asked): Query<Asked>) -> Response {
    let Ok(permit) = page.followers.clone().try_acquire_owned() else {
        let body = Json(json!({ "error": "too many pages are open" }));
        return (StatusCode::SERVICE_UNAVAILABLE, body).into_response();
    };
    let changes = page.shown.changes.subscribe();
    let follower = Follower { page, asked, changes, is_first: true, _permit: permit };
    let pictures = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    Sse::new(pictures).keep_alive(KeepAlive::default()).into_response()
}

/// A page that is open somewhere.
struct Follower {
    page: Page,
    asked: Asked,
    changes: watch::Receiver<u64>,
    is_first: bool,
    _permit: OwnedSemaphorePermit,
}

impl Follower {
    async fn next(&mut self) -> Option<Event> {
        if !std::mem::replace(&mut self.is_first, false) {
            let stop = self.page.stop.clone();
            stop.run_until_cancelled(self.wait()).await?;
        }
        self.changes.mark_unchanged();
        let picture = self.page.picture(self.asked).await;
        Some(picture.unwrap_or_else(|error| {
            tracing::error!(error = format!("{error:#}"), "a picture failed");
            Event::default().event("failed").data("the graph failed; its log says why")
        }))
    }

    async fn wait(&mut self) {
        tokio::time::sleep(SHOW_EVERY).await;
        // Whether likes came or the time is over, there is something to show.
        let _ = tokio::time::timeout(MOVE_EVERY - SHOW_EVERY, self.changes.changed()).await;
    }
}

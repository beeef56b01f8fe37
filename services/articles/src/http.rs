//! The API. Every answer is JSON; an error describes the problem of the request and shows no
//! internals.

use std::{str::FromStr, time::Duration};

use axum::{
    Json, Router,
    extract::{
        DefaultBodyLimit, FromRequest, Path, Query, Request, State,
        rejection::{JsonRejection, PathRejection, QueryRejection},
    },
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use services_web::database::Failure;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{ArticleId, AuthorId, CONTENT_BYTES_MAX, Invalid, nanoseconds},
    series::second,
    service::Articles,
    storage::StorageError,
};

/// Largest request: content whose every character is escaped, and a little more.
const BODY_BYTES_MAX: usize = 6 * CONTENT_BYTES_MAX + 1024;
/// Longest time a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The routes.
pub fn router(articles: Articles) -> Router {
    Router::new()
        .route("/articles", post(publish))
        .route("/articles/{id}", get(read).patch(update))
        .route("/articles/{id}/like", post(like))
        .route("/authors/{id}/likes", get(series))
        .route("/readyz", get(ready))
        .route("/livez", get(async || "ok\n"))
        .fallback(async || Refusal(StatusCode::NOT_FOUND, "there is nothing here".to_owned()))
        .method_not_allowed_fallback(async || {
            Refusal(StatusCode::METHOD_NOT_ALLOWED, "this cannot be done here".to_owned())
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn(limit_time))
        .with_state(articles)
}

/// Answers requests until stopped, then finishes the requests in progress, for ten seconds at most.
/// An incomplete request does not delay the stop.
pub async fn run(listener: TcpListener, router: Router, stop: CancellationToken) {
    services_web::serve(listener, router, stop).await;
}

async fn limit_time(request: Request, next: axum::middleware::Next) -> Response {
    match tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let text = "this took too long; whether it was done is open".to_owned();
            Refusal(StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

/// Why a request is not answered as asked.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Self(StatusCode::BAD_REQUEST, invalid.to_string())
    }
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Self {
        let status = match &error {
            StorageError::Exists(_) => StatusCode::CONFLICT,
            StorageError::NotFound(_) => StatusCode::NOT_FOUND,
            StorageError::Refused(_) => StatusCode::BAD_REQUEST,
            StorageError::Outbox(_) | StorageError::Database(_) | StorageError::Corrupt { .. } => {
                tracing::error!(error = %chain(&error), "a request failed");
                return Self::failed(error);
            }
        };
        Self(status, error.to_string())
    }
}

impl Refusal {
    /// An error that is not the client's fault, passing or permanent.
    fn failed(error: StorageError) -> Self {
        let failure = match error {
            StorageError::Outbox(error) => Failure::from(error),
            StorageError::Database(error) => Failure::from(error),
            error => Failure::Internal(error.to_string()),
        };
        let (status, text) = match failure {
            Failure::Unavailable(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "the database cannot be used now; try again")
            }
            Failure::Internal(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "the service failed; its log says why")
            }
        };
        Self(status, text.to_owned())
    }
}

/// An error and what caused it, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// A JSON body, its errors in our words.
struct Body<T>(T);

impl<T, S> FromRequest<S> for Body<T>
where
    Json<T>: FromRequest<S, Rejection = JsonRejection>,
    S: Send + Sync,
{
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        match Json::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            // JSON of the wrong form is a bad request like any other.
            Err(JsonRejection::JsonDataError(error)) => {
                Err(Refusal(StatusCode::BAD_REQUEST, error.body_text()))
            }
            Err(error) => Err(Refusal(error.status(), error.body_text())),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewArticle {
    id: ArticleId,
    author_id: AuthorId,
    content: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewContent {
    content: String,
}

/// The answer to a like.
#[derive(Debug, Serialize, Deserialize)]
pub struct LikeAnswer {
    /// The article's likes, this one included.
    pub likes: u64,
    /// The id of the event that was written with it.
    pub event_id: String,
    /// When it was counted: RFC 3339, UTC, with nanoseconds.
    pub liked_at: String,
}

/// Which time is wanted; all of it where either end is missing.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Between {
    /// An instant of the first second: RFC 3339.
    pub(crate) from: Option<Timestamp>,
    /// An instant of the last.
    pub(crate) until: Option<Timestamp>,
}

impl Between {
    /// The first and the last second.
    pub(crate) fn seconds(self) -> Option<(i64, i64)> {
        self.from.map(second).zip(self.until.map(second))
    }
}

/// What a path names.
type Named = Result<Path<String>, PathRejection>;

fn id<T: FromStr<Err = Invalid>>(named: Named) -> Result<T, Refusal> {
    let named = named.map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.body_text()));
    Ok(named?.parse()?)
}

async fn publish(
    State(articles): State<Articles>,
    Body(new): Body<NewArticle>,
) -> Result<Response, Refusal> {
    let record = articles.publish(new.id, new.author_id, new.content).await?;
    let location = [(header::LOCATION, format!("/articles/{}", record.id))];
    Ok((StatusCode::CREATED, location, Json(record)).into_response())
}

async fn read(State(articles): State<Articles>, path: Named) -> Result<Response, Refusal> {
    Ok(Json(articles.get(id(path)?).await?).into_response())
}

async fn update(
    State(articles): State<Articles>,
    path: Named,
    Body(new): Body<NewContent>,
) -> Result<Response, Refusal> {
    Ok(Json(articles.update_content(id(path)?, new.content).await?).into_response())
}

async fn like(State(articles): State<Articles>, path: Named) -> Result<Json<LikeAnswer>, Refusal> {
    let liked = articles.like(id(path)?).await?;
    Ok(Json(LikeAnswer {
        likes: liked.likes,
        event_id: liked.event.event_id().to_string(),
        liked_at: nanoseconds::format(liked.event.timestamp()),
    }))
}

async fn series(
    State(articles): State<Articles>,
    path: Named,
    between: Result<Query<Between>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(between) =
        between.map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.body_text()))?;
    Ok(Json(articles.series(id(path)?, between.seconds()).await?).into_response())
}

/// The service is ready if it can count likes; the state of delivery is shown, but does not affect
/// readiness.
async fn ready(State(articles): State<Articles>) -> Response {
    let storage = articles.check().await;
    if let Err(error) = &storage {
        tracing::warn!(error = %chain(error), "not ready");
    }
    let routes: Vec<_> = articles
        .relay_health()
        .into_iter()
        .flat_map(|health| health.routes)
        .map(|route| json!({ "consumer": route.name, "state": route.state.as_str() }))
        .collect();
    let status = if storage.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": storage.is_ok(), "consumers": routes }))).into_response()
}

//! The two envelopes: `{"code","message","data"}` and `{"title","status","detail"?,"instance"}`.
//! Handlers answer with a [`Problem`]. Only [`errors`] writes its body, because it knows the
//! address. It also writes the bodies of errors of the router and the layers, so that all errors
//! have the same form.

use std::borrow::Cow;

use axum::{
    body::Body,
    extract::{OriginalUri, Request},
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

/// Seconds after which a client may try again what could not be served now.
const RETRY_AFTER_SECONDS: u64 = 1;

/// The answer to a successful request.
#[derive(Debug, Serialize, ToSchema)]
pub struct Success<T> {
    /// The HTTP status.
    #[schema(example = 200, minimum = 200, maximum = 299)]
    pub code: u16,
    /// What happened.
    #[schema(example = "ok")]
    pub message: Cow<'static, str>,
    /// The result.
    pub data: T,
}

impl<T> Success<T> {
    /// 201, with a message.
    pub fn created(message: &'static str, data: T) -> Self {
        Self { code: 201, message: message.into(), data }
    }

    /// 200, with a message.
    pub fn ok(message: &'static str, data: T) -> Self {
        Self { code: 200, message: message.into(), data }
    }
}

impl<T: Serialize> IntoResponse for Success<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self) {
            Ok(body) => {
                let status = StatusCode::from_u16(self.code).unwrap_or(StatusCode::OK);
                (status, [(header::CONTENT_TYPE, JSON)], body).into_response()
            }
            Err(_) => Problem::internal("the answer does not serialise").into_response(),
        }
    }
}

/// The answer to a failed request.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ErrResponse)]
pub struct ErrorBody {
    /// The problem, in a few fixed words.
    #[schema(example = "amount must be greater than zero")]
    pub title: String,
    /// The HTTP status.
    #[schema(example = 400, minimum = 400, maximum = 599)]
    pub status: u16,
    /// More about it, where there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The address that was asked for, with its query.
    #[schema(example = "/api/v1/transactions")]
    pub instance: String,
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub struct Problem {
    status: StatusCode,
    title: Cow<'static, str>,
    detail: Option<String>,
}

impl Problem {
    /// A problem with the words its status has.
    #[must_use]
    pub fn of(status: StatusCode) -> Self {
        let title = match status {
            StatusCode::INTERNAL_SERVER_ERROR => "internal server error".into(),
            StatusCode::PAYLOAD_TOO_LARGE => "request body too large".into(),
            status => status.canonical_reason().unwrap_or("error").to_lowercase().into(),
        };
        Self { status, title, detail: None }
    }

    /// A problem with its own words.
    #[must_use]
    pub fn new(status: StatusCode, title: impl Into<Cow<'static, str>>) -> Self {
        Self { title: title.into(), ..Self::of(status) }
    }

    /// 400.
    #[must_use]
    pub fn bad_request(title: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, title)
    }

    /// Adds details for the client. They are never logged.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// 503: logs why, and tells the client only that it may try again.
    #[must_use]
    pub fn unavailable(why: &str) -> Self {
        tracing::warn!(reason = why, "a request could not be served");
        Self::of(StatusCode::SERVICE_UNAVAILABLE)
    }

    /// 500: logs why, and tells the client nothing.
    #[must_use]
    pub fn internal(why: &str) -> Self {
        tracing::error!(reason = why, "a request failed");
        Self::of(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// Without its body, which the layer for errors writes: it knows the address.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The layer that writes the body of every error.
pub(crate) async fn errors(
    OriginalUri(uri): OriginalUri,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let problem =
        response.extensions_mut().remove::<Problem>().unwrap_or_else(|| Problem::of(status));
    let body = ErrorBody {
        title: problem.title.into_owned(),
        status: status.as_u16(),
        detail: problem.detail,
        instance: uri.to_string(),
    };
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, JSON);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
    }
    // Texts and numbers always serialise.
    *response.body_mut() = Body::from(serde_json::to_vec(&body).unwrap_or_default());
    response
}

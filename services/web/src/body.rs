//! Reads a JSON body; every problem of a body has the same answer.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header},
};
use serde::de::DeserializeOwned;

use crate::Problem;

/// A body that is one JSON object and nothing after it.
///
/// `curl -d` says `application/x-www-form-urlencoded` unless told otherwise, so that is taken for
/// JSON, and so is a body without a type; any other type is refused with 415.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::of(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let bytes =
            Bytes::from_request(request, state).await.map_err(|rejection| {
                match rejection.status() {
                    StatusCode::BAD_REQUEST => invalid("the body ended early"),
                    status => Problem::of(status),
                }
            })?;
        // A struct would be read from an array, too.
        if bytes.trim_ascii_start().starts_with(b"[") {
            return Err(invalid("expected an object"));
        }
        serde_json::from_slice(&bytes).map(Self).map_err(|error| invalid(&error.to_string()))
    }
}

fn invalid(why: &str) -> Problem {
    Problem::bad_request("invalid request body").detail(why)
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return true };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    essence == "application/json"
        || essence == "application/x-www-form-urlencoded"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

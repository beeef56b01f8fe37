//! The HTTP API: from requests to use cases and back, and its description.

mod body;

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    Router,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use services_web::{ErrorBody, Json, Problem, Ready, Success};
use utoipa::OpenApi;
use uuid::Uuid;

use self::body::{BalanceOf, CreateReq, TransactionState};
use crate::{
    application::{Created, IdempotencyKey, LedgerError, StoredTransfer, Transfers},
    domain::{Transfer, UserId, Violation},
};

/// The header that makes a request repeatable.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The API's description.
#[derive(Debug, OpenApi)]
#[openapi(
    info(title = "Transaction Service API", version = "1.0", license(name = "MIT OR Apache-2.0"),
        description = "Transfers between users. Every transfer is recorded together with a \
            `TransactionCreated` event, which the outbox's relay publishes."),
    paths(create, find, balance),
    components(schemas(ErrorBody)),
    tags((name = "transfers"))
)]
pub struct Api;

/// The routes.
pub fn router(transfers: Arc<Transfers>) -> Router {
    Router::new()
        .route("/api/v1/transactions", post(create))
        .route("/api/v1/transactions/{id}", get(find))
        .route("/api/v1/balance/{userId}", get(balance))
        .with_state(transfers)
}

/// Create a transfer
///
/// Records a transfer and its event in one transaction. With an `Idempotency-Key`, the same request
/// of the same sender is done once, however often and however concurrently it is sent. Keys do not
/// expire.
#[utoipa::path(
    post, path = "/api/v1/transactions", tag = "transfers", operation_id = "createTransaction",
    params(("Idempotency-Key" = Option<String>, Header,
        description = "any name for this request, printable ASCII; empty is none",
        max_length = 255, pattern = "^[ -~]*$", example = "my-key-001")),
    request_body = CreateReq,
    responses(
        (status = 201, description = "recorded", body = Success<TransactionState>),
        (status = 200, description = "recorded before, by the same request with this key", body = Success<TransactionState>),
        (status = 400, description = "the body or the key breaks a rule", body = ErrorBody),
        (status = 413, description = "the body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "the body is not JSON", body = ErrorBody),
        (status = 422, description = "the sender has used this key for another request", body = ErrorBody),
        (status = 503, description = "not now; see Retry-After", body = ErrorBody),
    )
)]
async fn create(
    State(transfers): State<Arc<Transfers>>,
    headers: HeaderMap,
    Json(request): Json<CreateReq>,
) -> Result<Success<TransactionState>, Problem> {
    let transfer = Transfer::new(request.into()).map_err(violation)?;
    let key = idempotency_key(&headers)?;
    let created = transfers.create(&transfer, key.as_ref()).await.map_err(failure)?;
    let log = |stored: &StoredTransfer, what| {
        tracing::info!(transaction_id = %stored.id, has_idempotency_key = key.is_some(), "{what}");
    };
    match created {
        Created::New(stored) => {
            log(&stored, "transaction created");
            Ok(Success::created("transaction created", stored.into()))
        }
        Created::Before(stored) => {
            log(&stored, "transaction already exists");
            Ok(Success::ok("transaction already exists", stored.into()))
        }
        Created::KeyReused => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Idempotency-Key was used for another request",
        )),
    }
}

/// A transfer's status
#[utoipa::path(
    get, path = "/api/v1/transactions/{id}", tag = "transfers", operation_id = "getTransaction",
    params(("id" = String, Path, description = "what creating it returned", format = "uuid")),
    responses(
        (status = 200, description = "where it is in its life", body = Success<TransactionState>),
        (status = 404, description = "there is no such transfer", body = ErrorBody),
        (status = 503, description = "not now; see Retry-After", body = ErrorBody),
    )
)]
async fn find(
    State(transfers): State<Arc<Transfers>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Success<TransactionState>, Problem> {
    let unknown = || Problem::new(StatusCode::NOT_FOUND, "transaction not found");
    // A text that is no id names no transfer.
    let Path(id) = id.map_err(|_| unknown())?;
    let id = Uuid::try_parse(&id).map_err(|_| unknown())?;
    let stored = transfers.find(id).await.map_err(failure)?.ok_or_else(unknown)?;
    Ok(Success::ok("ok", stored.into()))
}

/// A user's balance
///
/// What the user has received minus what they have sent, settled transfers alone. Users are not
/// registered here: one that nobody has heard of has a balance of 0. It may be negative, and larger
/// than 64 bits.
#[utoipa::path(
    get, path = "/api/v1/balance/{userId}", tag = "transfers", operation_id = "getBalance",
    params(("userId" = String, Path, description = "any text without U+0000",
        min_length = 1, max_length = 255, pattern = "^[^\\x00]+$", example = "any-user-id")),
    responses(
        (status = 200, description = "the settled balance", body = Success<BalanceOf>),
        (status = 400, description = "this cannot be a user's id", body = ErrorBody),
        (status = 404, description = "no user is named", body = ErrorBody),
        (status = 503, description = "not now; see Retry-After", body = ErrorBody),
    )
)]
async fn balance(
    State(transfers): State<Arc<Transfers>>,
    user: Result<Path<String>, PathRejection>,
) -> Result<Success<BalanceOf>, Problem> {
    let Path(text) = user.map_err(|_| Problem::bad_request("user id must be UTF-8"))?;
    let user = UserId::parse("user id", &text).map_err(violation)?;
    let balance = transfers.balance(&user).await.map_err(failure)?;
    Ok(Success::ok("ok", BalanceOf { user_id: text, balance }))
}

/// The key, if there is one.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::bad_request("Idempotency-Key must be given once"));
    }
    let invalid = |error: crate::application::InvalidKey| Problem::bad_request(error.to_string());
    IdempotencyKey::parse(value.as_bytes()).map_err(invalid)
}

fn violation(violation: Violation) -> Problem {
    Problem::bad_request(violation.to_string())
}

fn failure(error: LedgerError) -> Problem {
    match error {
        LedgerError::Unavailable(why) | LedgerError::Held(why) => Problem::unavailable(&why),
        LedgerError::Internal(why) => Problem::internal(&why),
    }
}

#[async_trait]
impl Ready for Transfers {
    async fn ready(&self) -> Result<(), String> {
        self.check().await.map_err(|_| "the database cannot be used".to_owned())
    }
}

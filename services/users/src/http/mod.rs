//! The HTTP API: from requests to the use case and back, and its description.

use std::sync::Arc;

use async_trait::async_trait;
use axum::{Router, extract::State, http::StatusCode, routing::post};
use serde::{Deserialize, Serialize};
use services_web::{ErrorBody, Json, Problem, Ready, Success};
use utoipa::{OpenApi, ToSchema};
use uuid::Uuid;

use crate::{
    application::{PortError, Registered, Registration},
    domain::{Email, Password, Violation},
};

/// The API's description.
#[derive(Debug, OpenApi)]
#[openapi(
    info(title = "Users Service API", version = "1.0", license(name = "MIT OR Apache-2.0"),
        description = "Registration of users. Every user is recorded together with a `UserCreated` \
            event, which the outbox's relay publishes."),
    paths(create),
    components(schemas(ErrorBody)),
    tags((name = "users"))
)]
pub struct Api;

/// The routes; `/users` is an older name.
pub fn router(registration: Arc<Registration>) -> Router {
    Router::new()
        .route("/api/v1/users", post(create))
        .route("/users", post(create))
        .with_state(registration)
}

/// A request to register a user.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default)]
struct CreateReq {
    /// An e-mail address. Leading and trailing spaces and letter case do not matter.
    #[schema(required, format = "email", example = "ann@example.com")]
    email: String,
    /// A password.
    #[schema(
        required,
        min_length = 8,
        max_length = 128,
        format = "password",
        example = "correct horse"
    )]
    password: String,
}

/// A new user.
#[derive(Serialize, ToSchema)]
struct UserId {
    /// Their id.
    id: Uuid,
}

/// Register a user
///
/// Records a user and an event in one transaction. Only an Argon2id hash of the password is kept.
#[utoipa::path(
    post, path = "/api/v1/users", tag = "users", operation_id = "createUser",
    request_body = CreateReq,
    responses(
        (status = 201, description = "registered", body = Success<UserId>),
        (status = 400, description = "the body breaks a rule", body = ErrorBody),
        (status = 409, description = "the address is already registered", body = ErrorBody),
        (status = 413, description = "the body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "the body is not JSON", body = ErrorBody),
        (status = 503, description = "not now; see Retry-After", body = ErrorBody),
    )
)]
async fn create(
    State(registration): State<Arc<Registration>>,
    Json(request): Json<CreateReq>,
) -> Result<Success<UserId>, Problem> {
    let email = Email::parse(&request.email).map_err(violation)?;
    let password = Password::parse(request.password).map_err(violation)?;
    match registration.register(email, password).await.map_err(failure)? {
        Registered::New(id) => {
            // Logs name no users.
            tracing::info!("user created");
            Ok(Success::created("user created", UserId { id }))
        }
        Registered::EmailTaken => {
            Err(Problem::new(StatusCode::CONFLICT, "email already registered"))
        }
    }
}

fn violation(violation: Violation) -> Problem {
    Problem::bad_request(violation.to_string())
}

fn failure(error: PortError) -> Problem {
    match error {
        PortError::Unavailable(why) => Problem::unavailable(&why),
        PortError::Internal(why) => Problem::internal(&why),
    }
}

#[async_trait]
impl Ready for Registration {
    async fn ready(&self) -> Result<(), String> {
        self.check().await.map_err(|_| "the database cannot be used".to_owned())
    }
}

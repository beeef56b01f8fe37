//! Bodies of requests and answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{application::StoredTransfer, domain::Draft};

/// What is to be transferred.
#[derive(Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct CreateReq {
    /// Who pays; any text without U+0000.
    #[schema(
        required,
        min_length = 1,
        max_length = 255,
        pattern = "^[^\\x00]+$",
        example = "user-abc"
    )]
    from_user_id: String,
    /// Who is paid; somebody else.
    #[schema(
        required,
        min_length = 1,
        max_length = 255,
        pattern = "^[^\\x00]+$",
        example = "user-xyz"
    )]
    to_user_id: String,
    /// How much, in minor units.
    #[schema(required, minimum = 1, example = 1000)]
    amount: i64,
    /// What for.
    #[schema(max_length = 1000, pattern = "^[^\\x00]*$", example = "payment for services")]
    description: String,
}

impl Default for CreateReq {
    fn default() -> Self {
        let Draft { from_user_id, to_user_id, amount, description } = Draft::default();
        Self { from_user_id, to_user_id, amount, description }
    }
}

impl From<CreateReq> for Draft {
    fn from(request: CreateReq) -> Self {
        let CreateReq { from_user_id, to_user_id, amount, description } = request;
        Self { from_user_id, to_user_id, amount, description }
    }
}

/// A transfer and where it is in its life.
#[derive(Serialize, ToSchema)]
pub(super) struct TransactionState {
    /// Its id.
    id: Uuid,
    /// `PENDING`, `PROCESSING`, then `COMPLETED` or `FAILED`.
    #[schema(pattern = "^(PENDING|PROCESSING|COMPLETED|FAILED)$", example = "PENDING")]
    status: &'static str,
}

impl From<StoredTransfer> for TransactionState {
    fn from(stored: StoredTransfer) -> Self {
        Self { id: stored.id, status: stored.status.as_str() }
    }
}

/// A user's balance.
#[derive(Serialize, ToSchema)]
pub(super) struct BalanceOf {
    /// The user, as asked for.
    #[schema(example = "any-user-id")]
    pub(super) user_id: String,
    /// In minor units.
    #[schema(value_type = Object, schema_with = integer)]
    pub(super) balance: i128,
}

/// An integer of any size.
fn integer() -> utoipa::openapi::schema::Object {
    utoipa::openapi::schema::Object::with_type(utoipa::openapi::schema::Type::Integer)
}

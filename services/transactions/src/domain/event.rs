//! The event of a new transfer.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Transfer;

/// A transfer was recorded and waits to be settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TransactionCreated {
    /// Which one.
    pub transaction_id: Uuid,
    /// Who pays.
    pub from_user_id: String,
    /// Who is paid.
    pub to_user_id: String,
    /// How much, in minor units.
    pub amount: i64,
    /// What for.
    pub description: String,
}

impl TransactionCreated {
    /// The name consumers know it by.
    pub const TYPE: &'static str = "TransactionCreated";
    /// The topic, which is the routing key: the type in the spelling of brokers.
    pub const TOPIC: &'static str = "transaction.created";

    /// The event of a new transfer.
    #[must_use]
    pub fn of(transfer: &Transfer) -> Self {
        Self {
            transaction_id: transfer.id,
            from_user_id: transfer.from.as_str().to_owned(),
            to_user_id: transfer.to.as_str().to_owned(),
            amount: transfer.amount,
            description: transfer.description.clone(),
        }
    }
}

//! The use case of registering a user, and its ports.

use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use crate::domain::{Email, Password, PasswordHash, User};

/// Why a port failed. The texts are for logs: no SQL, no secret, no value.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The call may succeed later.
    #[error("{0}")]
    Unavailable(String),
    /// The call will not succeed later.
    #[error("{0}")]
    Internal(String),
}

/// The result of adding a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The user and the event were added.
    New,
    /// The address is already registered: nothing was written.
    EmailTaken,
}

/// Where users are kept.
#[async_trait]
pub trait Directory: Send + Sync {
    /// Adds a user and their `UserCreated` in one transaction: both or neither. Of any number of
    /// calls with one address exactly one is `New`.
    async fn add(&self, user: &User) -> Result<Added, PortError>;

    /// Whether calls can succeed.
    async fn check(&self) -> Result<(), PortError>;
}

/// How passwords are hashed.
#[async_trait]
pub trait Hasher: Send + Sync {
    /// A hash with a salt of its own.
    async fn hash(&self, password: Password) -> Result<PasswordHash, PortError>;
}

/// The result of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// There is a new user.
    New(Uuid),
    /// The address is already registered.
    EmailTaken,
}

/// The use case.
pub struct Registration {
    directory: Arc<dyn Directory>,
    hasher: Arc<dyn Hasher>,
}

impl Registration {
    /// With its ports.
    #[must_use]
    pub fn new(directory: Arc<dyn Directory>, hasher: Arc<dyn Hasher>) -> Self {
        Self { directory, hasher }
    }

    /// Registers a user. The hash is computed first, also for a registered address, so that the
    /// time of the answer does not tell the two cases apart.
    ///
    /// # Errors
    /// When a port fails; the user was not registered, or that is unknown.
    pub async fn register(
        &self,
        email: Email,
        password: Password,
    ) -> Result<Registered, PortError> {
        let password = self.hasher.hash(password).await?;
        let user = User { id: Uuid::now_v7(), email, password };
        Ok(match self.directory.add(&user).await? {
            Added::New => Registered::New(user.id),
            Added::EmailTaken => Registered::EmailTaken,
        })
    }

    /// Whether calls can succeed.
    ///
    /// # Errors
    /// Why not.
    pub async fn check(&self) -> Result<(), PortError> {
        self.directory.check().await
    }
}

//! How somebody is registered, and what that needs of the world.

use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use crate::domain::{Email, Password, PasswordHash, User};

/// Why a port could not do it. The texts are for logs: no SQL, no secret, no value.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// It may work later.
    #[error("{0}")]
    Unavailable(String),
    /// It will not.
    #[error("{0}")]
    Internal(String),
}

/// What became of a user who was to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// They were, and the event with them.
    New,
    /// Somebody has that address: nothing was written.
    EmailTaken,
}

/// Where users are kept.
#[async_trait]
pub trait Directory: Send + Sync {
    /// Adds a user and their `UserCreated` in one transaction: both or neither. Of any number of calls
    /// with one address exactly one is `New`.
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

/// What asking to be registered came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// There is a new user.
    New(Uuid),
    /// Somebody has that address.
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

    /// Registers somebody. The hash is made first, and for a taken address too: the time it takes does
    /// not tell the two apart.
    ///
    /// # Errors
    /// When a port cannot; then nobody was registered, or it is unknown whether they were.
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

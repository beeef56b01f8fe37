//! Argon2id with the parameters OWASP asks for at least: 19 MiB, 2 passes, 1 lane.

use std::{sync::Arc, thread::available_parallelism};

use argon2::{
    Algorithm, Argon2, Params, PasswordHasher, Version,
    password_hash::{SaltString, rand_core::OsRng},
};
use async_trait::async_trait;
use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::{
    application::{Hasher, PortError},
    domain::{Password, PasswordHash},
};

const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// Hashes as many passwords at a time as there are processors: more would only take memory.
#[derive(Debug)]
pub struct Argon2Hasher {
    places: Arc<Semaphore>,
}

impl Argon2Hasher {
    /// A hasher for this machine.
    #[must_use]
    pub fn new() -> Self {
        let places = available_parallelism().map_or(1, usize::from);
        Self { places: Arc::new(Semaphore::new(places)) }
    }
}

impl Default for Argon2Hasher {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Hasher for Argon2Hasher {
    async fn hash(&self, password: Password) -> Result<PasswordHash, PortError> {
        let place = self.places.clone().acquire_owned().await;
        let hash = spawn_blocking(move || {
            let _place = place;
            hash(&password)
        });
        match hash.await {
            Ok(Ok(hash)) => Ok(hash),
            _ => Err(PortError::Internal("the password could not be hashed".to_owned())),
        }
    }
}

fn hash(password: &Password) -> Result<PasswordHash, argon2::password_hash::Error> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None)?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let salt = SaltString::generate(&mut OsRng);
    Ok(PasswordHash(argon2.hash_password(password.as_bytes(), &salt)?.to_string()))
}

//! Registration of users. The layers, from the inside: [`domain`] holds the rules of addresses and
//! passwords; [`application`] registers users through ports; [`infra`] implements the ports with
//! PostgreSQL, SQLite and Argon2, with a message in the outbox for every user; [`http`] answers
//! requests. The first two know no driver: `cargo xtask tidy` checks that.

pub mod application;
pub mod domain;
pub mod http;
pub mod infra;

use std::sync::Arc;

use application::Registration;
use services_web::{Environment, Service, database};
use utoipa::OpenApi as _;

/// Reads the environment and runs the API until it is told to stop.
///
/// # Errors
/// Every variable that is wrong; or why it could not start.
pub async fn start(mut environment: Environment) -> anyhow::Result<()> {
    let address = Service::address(&mut environment, 8081);
    let settings = database::Settings::read(&mut environment, "users_db", "users.db");
    let patiently = database::Patiently::read(&mut environment);
    environment.finish()?;
    tracing::info!(database = ?settings, "starting");
    let database = infra::Database::open(settings).await?;
    let hasher = Arc::new(infra::Argon2Hasher::new());
    let registration = Arc::new(Registration::new(database.directory(), hasher));
    let beside = async move {
        patiently.until_done(|| database.migrate()).await?;
        tracing::info!("the tables are up to date");
        Ok(())
    };
    services_web::run(Service {
        metrics_prefix: "users_service",
        address,
        router: http::router(registration.clone()),
        api: Some(http::Api::openapi()),
        ready: registration,
        beside: services_web::until_stopped(beside),
    })
    .await
}

//! Transfers between users.
//!
//! The layers, from the inside: [`domain`] knows what a transfer is; [`application`] what can be done
//! with one, and the port it needs; [`infra`] implements the port on PostgreSQL and on SQLite, with a
//! message in the outbox for every transfer; [`http`] answers requests. The first two know no driver:
//! `cargo xtask tidy` checks that.

pub mod application;
pub mod domain;
pub mod http;
pub mod infra;

use std::sync::Arc;

use application::Transfers;
use services_web::{Environment, Service, database};
use utoipa::OpenApi as _;

/// Reads the environment and runs the API until it is told to stop.
///
/// # Errors
/// Every variable that is wrong; or why it could not start.
pub async fn start(mut environment: Environment) -> anyhow::Result<()> {
    let address = Service::address(&mut environment, 8080);
    let settings = database::Settings::read(&mut environment, "transaction_db", "transactions.db");
    let patiently = database::Patiently::read(&mut environment);
    environment.finish()?;
    tracing::info!(database = ?settings, "starting");
    let database = infra::Database::open(settings).await?;
    let transfers = Arc::new(Transfers::new(database.ledger()));
    let beside = async move {
        patiently.until_done(|| database.migrate()).await?;
        tracing::info!("the tables are there");
        Ok(())
    };
    services_web::run(Service {
        metrics_prefix: "transaction_service",
        address,
        router: http::router(transfers.clone()),
        api: http::Api::openapi(),
        ready: transfers,
        beside: Box::pin(beside),
    })
    .await
}

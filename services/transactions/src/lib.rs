//! Transfers between users.
//!
//! The layers, from the inside: [`domain`] knows what a transfer is; [`application`] what can be
//! done with one, and the port it needs; [`infra`] implements the port on PostgreSQL and on SQLite,
//! with a message in the outbox for every transfer; [`http`] answers requests, and [`consumer`]
//! settles what was asked for. The first two know no driver: `cargo xtask tidy` checks that.

pub mod application;
pub mod consumer;
pub mod domain;
pub mod http;
pub mod infra;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use application::Transfers;
use async_trait::async_trait;
use axum::Router;
use services_web::{Environment, Ready, Service, database};
use tokio_util::sync::CancellationToken;
use utoipa::OpenApi as _;

use self::infra::Database;

/// Reads the environment and runs the API until it is told to stop.
///
/// # Errors
/// Every variable that is wrong; or why it could not start.
pub async fn serve(mut environment: Environment) -> anyhow::Result<()> {
    let address = Service::address(&mut environment, 8080);
    let settings = settings(&mut environment);
    let patiently = database::Patiently::read(&mut environment);
    // Nobody runs a broker beside a file.
    let is_file = matches!(settings, database::Settings::Sqlite(_));
    let is_embedded =
        environment.parse_with("SETTLEMENT", is_file, "embedded or external", |text| match text {
            "embedded" => Some(true),
            "external" => Some(false),
            _ => None,
        });
    let overdraft = consumer::overdraft(&mut environment);
    environment.finish()?;
    tracing::info!(database = ?settings, "starting");
    let database = Database::open(settings).await?;
    let transfers = Arc::new(Transfers::new(database.ledger()));
    let beside = move |stop: CancellationToken| async move {
        if tables(&database, patiently, &stop).await? && is_embedded {
            consumer::embedded(&database, overdraft, stop).await?;
        }
        Ok(())
    };
    services_web::run(Service {
        metrics_prefix: "transaction_service",
        address,
        router: http::router(transfers.clone()),
        api: Some(http::Api::openapi()),
        ready: transfers,
        beside: Box::new(|stop| Box::pin(beside(stop))),
    })
    .await
}

/// Reads the environment and settles transfers until it is told to stop. Health and metrics are
/// served meanwhile.
///
/// # Errors
/// Every variable that is wrong; or why it could not start.
pub async fn settle(mut environment: Environment) -> anyhow::Result<()> {
    let address = Service::address(&mut environment, 8082);
    let settings = settings(&mut environment);
    let patiently = database::Patiently::read(&mut environment);
    let rabbit = consumer::rabbit(&mut environment);
    let overdraft = consumer::overdraft(&mut environment);
    environment.finish()?;
    tracing::info!(database = ?settings, broker = ?rabbit, "starting");
    let database = Database::open(settings).await?;
    let settler = Arc::new(Settler {
        transfers: Transfers::new(database.ledger()),
        is_subscribed: AtomicBool::new(false),
    });
    let ready = Arc::clone(&settler);
    let beside = move |stop: CancellationToken| async move {
        if tables(&database, patiently, &stop).await? {
            let is_subscribed = &settler.is_subscribed;
            consumer::from_rabbitmq(&database, &rabbit, overdraft, is_subscribed, stop).await?;
        }
        Ok(())
    };
    services_web::run(Service {
        metrics_prefix: "transaction_settlement",
        address,
        router: Router::new(),
        api: None,
        ready,
        beside: Box::new(|stop| Box::pin(beside(stop))),
    })
    .await
}

fn settings(environment: &mut Environment) -> database::Settings {
    database::Settings::read(environment, "transaction_db", "transactions.db")
}

/// Makes the tables. Whether they are there; if not, it was told to stop.
async fn tables(
    database: &Database,
    patiently: database::Patiently,
    stop: &CancellationToken,
) -> anyhow::Result<bool> {
    let done = stop.run_until_cancelled(patiently.until_done(|| database.migrate())).await;
    let Some(done) = done else { return Ok(false) };
    done?;
    tracing::info!("the tables are up to date");
    Ok(true)
}

/// What `/readyz` of the consumer looks at.
struct Settler {
    transfers: Transfers,
    /// Set when RabbitMQ has accepted the subscription for the first time.
    is_subscribed: AtomicBool,
}

#[async_trait]
impl Ready for Settler {
    async fn ready(&self) -> Result<(), String> {
        self.transfers.ready().await?;
        let is_subscribed = self.is_subscribed.load(Ordering::Relaxed);
        is_subscribed.then_some(()).ok_or_else(|| "RabbitMQ has not been reached yet".to_owned())
    }
}

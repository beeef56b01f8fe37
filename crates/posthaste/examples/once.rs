//! Orders from RabbitMQ become invoices in PostgreSQL, announced on NATS: each of them once.
//! `cargo run -p posthaste --features postgres,rabbitmq,nats --example once`

use std::{env::var, sync::Arc};

use posthaste::{
    Consumer, Message, Relay, Sharing, Start, Subscription, nats,
    postgres::{Inbox, Outbox},
    rabbitmq,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let subscription = Subscription {
        name: Some("example-billing".to_owned()),
        topics: vec!["example.orders".parse()?],
        start: Start::Beginning,
        sharing: Sharing::Competing,
    };
    // [once]
    let pool = sqlx::PgPool::connect(&var("DATABASE_URL")?).await?;
    let config = rabbitmq::Config::new(var("RABBITMQ_URL")?);
    let orders = Box::new(rabbitmq::subscribe(&config, &subscription).await?);
    let consumer = Consumer::builder(pool.clone(), Inbox::new("billing"), orders)
        .on("OrderPlaced", |tx, incoming| {
            Box::pin(async move {
                let order = incoming.message.key.as_deref().unwrap_or_default();
                let insert = sqlx::query("INSERT INTO invoice (order_id) VALUES ($1)").bind(order);
                insert.execute(&mut *tx).await?;
                let invoiced = Message::new("example.invoices", order, "invoiced")?;
                Outbox::new().enqueue(tx, invoiced).await?;
                Ok(())
            })
        })
        .build()?
        .spawn();
    let nats = Arc::new(nats::NatsBroker::open(nats::Config::new(var("NATS_URL")?))?);
    let relay = Relay::builder(pool).route("invoices", "example.*", nats).build()?.spawn();
    // [once]
    tokio::signal::ctrl_c().await?;
    consumer.shutdown().await?;
    relay.shutdown().await?;
    Ok(())
}

//! From nothing to a delivered message. `cargo run -p posthaste --features sqlite --example first`

use posthaste::{Message, Relay, sqlite::Outbox};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // [first]
    let pool = posthaste::sqlite::connect("sqlite:first.db").await?;
    posthaste::migrate(&pool).await?;

    let mut tx = pool.begin().await?;
    // ... your own INSERTs and UPDATEs on `tx`, then:
    Outbox::new().enqueue(&mut tx, Message::new("orders", 42, "placed")?).await?;
    tx.commit().await?;

    Relay::builder(pool).route("all", "*", posthaste::stdout()).build()?.run_once().await?;
    // [first]
    Ok(())
}

//! What an inbox costs: messages handled a second, against the same handler without one.

use std::time::{Duration, Instant};

use anyhow::Result;
use posthaste::{Incoming, Input, Message, Provenance, postgres::Inbox};
use posthaste_core::{Floor, Shard};
use sqlx::{Executor, PgConnection, PgPool};

use crate::{fill, report};

/// Messages that a relay may have on their way: how far its floor is behind.
const WINDOW: i64 = 256;

#[derive(Clone, Copy)]
enum Variant {
    /// The handler alone, in the same transactions.
    Bare,
    IdsFirst,
    IdsLast,
    Watermark,
}

/// What the handler does with a message. Each worker has accounts of its own: transactions of many
/// would meet in a deadlock otherwise.
async fn handle(connection: &mut PgConnection, worker: usize) -> Result<()> {
    let account = fastrand::i32(0..2_500) + 2_500 * i32::try_from(worker)?;
    sqlx::query("UPDATE account SET balance = balance + 1 WHERE id = $1")
        .bind(account)
        .execute(&mut *connection)
        .await?;
    sqlx::query("INSERT INTO movement (account, amount) VALUES ($1, 1)")
        .bind(account)
        .execute(connection)
        .await?;
    Ok(())
}

/// The next messages of a log, as an ordered subscriber gives them.
fn messages(worker: usize, from: i64, count: usize) -> Vec<Incoming> {
    let seqs = from..from + i64::try_from(count).unwrap_or(i64::MAX);
    let message = |seq| Incoming {
        message: Message::from_bytes("movements", None, ""),
        provenance: Provenance {
            source: Some("/bench".to_owned()),
            seq: Some(seq),
            floor: Some(Floor {
                log: uuid::Uuid::nil(),
                shard: Shard::WHOLE,
                seq: (seq - WINDOW).max(0),
                missing: Vec::new(),
            }),
            ..Provenance::default()
        },
        receipt: 0,
        lane: Some(format!("lane-{worker}").into()),
    };
    seqs.map(message).collect()
}

/// One transaction of messages.
async fn transact(
    pool: &PgPool,
    variant: Variant,
    worker: usize,
    messages: &[Incoming],
) -> Result<()> {
    let inbox = match variant {
        Variant::Bare => {
            let mut tx = pool.begin().await?;
            for _ in messages {
                handle(&mut tx, worker).await?;
            }
            return Ok(tx.commit().await?);
        }
        Variant::IdsFirst => Inbox::new("ids"),
        Variant::IdsLast => Inbox::new("ids").optimistic(),
        Variant::Watermark => Inbox::new("watermark").watermark(),
    };
    let inputs: Vec<Input<'_>> = messages.iter().map(Input::from).collect();
    let mut open = inbox.begin_all(pool, &inputs).await?;
    for index in 0..messages.len() {
        if open.is_new(index) {
            handle(&mut open, worker).await?;
        }
    }
    let _ = open.commit().await?;
    Ok(())
}

/// Messages a second with so many workers; `next` is where each worker's log goes on.
async fn rate(
    pool: &PgPool,
    variant: Variant,
    batch: usize,
    time: Duration,
    next: &mut [i64],
) -> Result<f64> {
    let start = Instant::now();
    let workers = next.iter().copied().enumerate().map(|(worker, from)| {
        let pool = pool.clone();
        tokio::spawn(async move {
            let mut next = from;
            while start.elapsed() < time {
                transact(&pool, variant, worker, &messages(worker, next, batch)).await?;
                next += i64::try_from(batch)?;
            }
            anyhow::Ok(next)
        })
    });
    let mut handled = 0;
    for (worker, next) in futures::future::join_all(workers).await.into_iter().zip(next) {
        let end = worker??;
        handled += end - *next;
        *next = end;
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let handled = handled as f64;
    Ok(handled / start.elapsed().as_secs_f64())
}

/// Handled messages a second, for transactions of 1 and of 100 messages, with 1 and 4 workers.
pub(crate) async fn run(server: &str, seconds: u64, rounds: usize) -> Result<()> {
    let (_, pool) = fill::database(server).await?;
    pool.execute(
        "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL);
         INSERT INTO account SELECT n, 0 FROM generate_series(0, 9999) n;
         CREATE TABLE movement (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account int, amount bigint);",
    )
    .await?;
    let time = Duration::from_secs(seconds.div_ceil(4));
    let variants = [Variant::Bare, Variant::IdsFirst, Variant::IdsLast, Variant::Watermark];
    let mut rows = Vec::new();
    for (workers, batch) in [(1, 1), (1, 100), (4, 1), (4, 100)] {
        let mut next = vec![1_i64; workers];
        let mut rates = [const { Vec::new() }; 4];
        for _ in 0..rounds {
            for (variant, rates) in variants.into_iter().zip(&mut rates) {
                rates.push(rate(&pool, variant, batch, time, &mut next).await?);
            }
        }
        let medians = rates.each_ref().map(|rates| report::median(rates));
        let mut row = vec![workers.to_string(), batch.to_string()];
        row.extend(medians.iter().map(|rate| format!("{rate:.0}")));
        row.extend(medians[1..].iter().map(|rate| format!("{:.2}", rate / medians[0])));
        rows.push(row);
        pool.execute("TRUNCATE posthaste.inbox, posthaste.inbox_lane, movement").await?;
    }
    report::table(
        "Messages handled a second (UPDATE + INSERT each)",
        &[
            "workers",
            "messages in a transaction",
            "bare",
            "ids",
            "ids, optimistic",
            "watermark",
            "ids / bare",
            "optimistic / bare",
            "watermark / bare",
        ],
        &rows,
    );
    Ok(())
}

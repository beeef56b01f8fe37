//! What handling a message costs above a floor that stands still, by how many were handled there.

use std::time::Instant;

use anyhow::{Context, Result};
use posthaste::{Handled, Incoming, Message, Provenance, postgres::Inbox};
use posthaste_core::{Floor, LanePage, Shard};
use sqlx::PgPool;

use crate::{fill, report};

/// Messages handled above the floor before anything is measured.
const SIZES: [i64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
/// The lane gets every third message of the log.
const STEP: i64 = 3;
/// Where the floor stands.
const FLOOR: i64 = 5;
/// Handled seqs that the row lists; the others are in pages.
const LISTED: i64 = 300;
/// Messages measured of each kind.
const MEASURED: i64 = 1_000;

/// The seq of the lane's `n`th message above the floor.
fn seq(n: i64) -> i64 {
    FLOOR + 1 + n * STEP
}

fn message(n: i64, log: uuid::Uuid) -> Incoming {
    let floor = Floor { log, shard: Shard::WHOLE, seq: FLOOR, missing: Vec::new() };
    Incoming {
        message: Message::from_bytes("movements", Some("k"), ""),
        provenance: Provenance {
            source: Some("/bench".to_owned()),
            seq: Some(seq(n)),
            floor: Some(floor),
            ..Provenance::default()
        },
        receipt: 0,
        lane: Some("lane".into()),
    }
}

/// Makes it look as if so many messages had been handled.
async fn seed(pool: &PgPool, log: uuid::Uuid, handled: i64) -> Result<()> {
    let paged = seq((handled - LISTED).max(0));
    let last = (paged - 1).div_euclid(LanePage::SEQS);
    sqlx::query(
        "INSERT INTO posthaste.inbox_page (consumer, log, lane, topic, shards, shard, number, seqs)
         SELECT 'bench', $1, 'lane', 'movements', 1, 0, page,
             string_agg(CASE WHEN first THEN at - page * 4096 ELSE $4 END::text, ',' ORDER BY at)
         FROM (
             SELECT at, at / 4096 AS page, at - $4 < $3 OR (at - $4) / 4096 < at / 4096 AS first
             FROM generate_series($3::bigint, $2::bigint - 1, $4::bigint) AS at
         ) AS handled
         GROUP BY page",
    )
    .bind(log)
    .bind(paged)
    .bind(seq(0))
    .bind(STEP)
    .execute(pool)
    .await
    .context("pages can be made")?;
    let listed = handled.min(LISTED);
    let mut distances = vec![(seq(handled - listed) - FLOOR).to_string()];
    distances.extend((1..listed).map(|_| STEP.to_string()));
    let mut watermark = format!("0of1/{FLOOR}//{}", distances.join(","));
    if handled > LISTED {
        watermark.push_str(&format!("/0-{last}"));
    }
    sqlx::query(
        "INSERT INTO posthaste.inbox_lane (consumer, log, lane, topic, watermark)
         VALUES ('bench', $1, 'lane', 'movements', $2)",
    )
    .bind(log)
    .bind(watermark)
    .execute(pool)
    .await?;
    Ok(())
}

/// Handles messages one by one; the median time of one, in microseconds.
async fn time(pool: &PgPool, messages: &[Incoming], expected: Handled) -> Result<f64> {
    let inbox = Inbox::new("bench").watermark();
    let mut times = Vec::with_capacity(messages.len());
    for incoming in messages {
        let start = Instant::now();
        let handled = inbox.handle(pool, incoming, async |_| anyhow::Ok(())).await?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        anyhow::ensure!(handled == expected, "{handled:?} instead of {expected:?}");
    }
    Ok(report::median(&times))
}

/// New messages in order, copies from anywhere, and messages that were parked, at every size.
pub(crate) async fn run(server: &str) -> Result<()> {
    let (_, pool) = fill::database(server).await?;
    let mut rows = Vec::new();
    for handled in SIZES {
        let log = uuid::Uuid::now_v7();
        seed(&pool, log, handled).await?;
        sqlx::query("VACUUM ANALYZE posthaste.inbox_page").execute(&pool).await?;
        let new: Vec<Incoming> = (handled..handled + MEASURED).map(|n| message(n, log)).collect();
        let copies: Vec<Incoming> =
            (0..MEASURED).map(|_| message(fastrand::i64(0..handled), log)).collect();
        let mut late = Vec::new();
        for index in 0..MEASURED.min(handled / 2) {
            let mut parked = message(index * (handled / MEASURED.min(handled)), log);
            parked.provenance.seq = parked.provenance.seq.map(|seq| seq + 1);
            late.push(parked);
        }
        let new = time(&pool, &new, Handled::Done(())).await?;
        let copies = time(&pool, &copies, Handled::Duplicate).await?;
        let late = time(&pool, &late, Handled::Done(())).await?;
        let sizes: (i64, i64, i64) = sqlx::query_as(
            "SELECT max(length(watermark))::bigint,
                 (SELECT count(*) FROM posthaste.inbox_page WHERE log = $1),
                 (SELECT coalesce(sum(pg_column_size(seqs)), 0)::bigint
                  FROM posthaste.inbox_page WHERE log = $1)
             FROM posthaste.inbox_lane WHERE log = $1",
        )
        .bind(log)
        .fetch_one(&pool)
        .await?;
        rows.push(vec![
            handled.to_string(),
            format!("{new:.0}"),
            format!("{copies:.0}"),
            format!("{late:.0}"),
            sizes.0.to_string(),
            sizes.1.to_string(),
            sizes.2.to_string(),
        ]);
    }
    report::table(
        "Handling above a floor that stands still (median of 1,000, one message in a transaction)",
        &[
            "handled above the floor",
            "new, in order: µs",
            "copy from anywhere: µs",
            "late: µs",
            "bytes of the row",
            "pages",
            "bytes of them",
        ],
        &rows,
    );
    Ok(())
}

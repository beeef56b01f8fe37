//! What a consumer keeps, and what it counts.

use articles::{
    replica::{Applied, Replica, Wanted},
    series::{POINTS_MAX, ROWS_MAX},
};
use posthaste::{Incoming, Message, Provenance};
use serde_json::json;
use tempfile::TempDir;

async fn replica() -> (TempDir, String, Replica) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("likes.db").display());
    let replica = Replica::open(&url).await.expect("a replica");
    (folder, url, replica)
}

fn like(source: &str, seq: i64, author: i64, timestamp: &str) -> Incoming {
    let event = json!({"article_id": 1, "author_id": author, "timestamp": timestamp});
    let message = Message::new("articles", 1, &event).expect("a message");
    let provenance =
        Provenance { source: Some(source.to_owned()), seq: Some(seq), ..Provenance::default() };
    Incoming { message: message.event_type("ArticleLiked"), provenance, receipt: 0, lane: None }
}

#[tokio::test]
async fn r7_08_a_place_that_comes_late_is_new() {
    let (_folder, _, replica) = replica().await;
    // A transaction that committed late has a lower place than one that was sent before it.
    let (second, first) =
        (like("/a", 2, 1, "2026-03-01T00:00:00Z"), like("/a", 1, 1, "2026-03-01T00:00:00Z"));
    replica.apply(std::slice::from_ref(&second)).await.unwrap();
    let applied = replica.apply(&[first, second]).await.unwrap();
    assert_eq!(applied, Applied { new: 1, repeated: 1, refused: 0 });
    assert_eq!(replica.sources().await.unwrap()[0].likes, 2);
}

#[tokio::test]
async fn r7_08_a_log_restored_from_a_backup_loses_nothing() {
    let (_folder, _, replica) = replica().await;
    // The same place of the same log, another event.
    for _ in 0..2 {
        replica.apply(&[like("/a", 1, 1, "2026-03-01T00:00:00Z")]).await.unwrap();
    }
    assert_eq!(replica.sources().await.unwrap()[0].likes, 2);
}

#[tokio::test]
async fn r7_08_other_events_are_left_alone() {
    let (_folder, _, replica) = replica().await;
    let mut other = like("/a", 1, 1, "2026-03-01T00:00:00Z");
    other.message.event_type = Some("ArticleRetracted".to_owned());
    assert_eq!(replica.apply(&[other]).await.unwrap(), Applied::default());
    assert_eq!(replica.refused().await.unwrap(), 0);
}

#[tokio::test]
async fn r7_09_buckets_are_true_utc_seconds_and_equal_the_databases_own_count() {
    let (_folder, url, replica) = replica().await;
    let likes: Vec<_> = [
        (1, "2026-03-01T16:27:05.25+02:00"),
        (1, "2026-03-01T09:27:05-05:00"),
        (2, "2026-03-01T14:27:05.999999999Z"),
        (1, "2026-03-01T14:27:08Z"),
        (2, "2026-03-01T20:12:10.5+05:45"),
    ]
    .into_iter()
    .zip(1..)
    .map(|((author, at), seq)| like("/a", seq, author, at))
    .collect();
    replica.apply(&likes).await.unwrap();
    let series = replica.series(Wanted::default(), POINTS_MAX).await.unwrap();
    assert_eq!(series.from.to_string(), "2026-03-01T14:27:05Z");
    assert_eq!(series.totals(), [3, 0, 0, 1, 0, 1]);
    let author = Some(2.try_into().unwrap());
    let of_two = replica.series(Wanted { author, seconds: None }, POINTS_MAX).await.unwrap();
    assert_eq!(of_two.totals(), [1, 0, 0, 0, 0, 1]);

    // SQLite's own idea of these instants, by its own functions.
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    let counted: Vec<(String, i64)> = sqlx::query_as(
        "SELECT strftime('%Y-%m-%dT%H:%M:%SZ', substr(liked_at, 1, 19) || substr(liked_at, \
         CASE WHEN liked_at LIKE '%Z' THEN -1 ELSE -6 END)), COUNT(*) FROM likes GROUP BY 1 ORDER BY 1",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    let table = replica.series(Wanted::default(), ROWS_MAX).await.unwrap().csv();
    let drawn: Vec<(String, i64)> = table
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<_>>())
        .map(|cells| (cells[0].to_owned(), cells[1].parse().unwrap()))
        .filter(|(_, likes)| *likes > 0)
        .collect();
    assert_eq!(drawn, counted);
}

#[tokio::test]
async fn r7_09_without_likes_there_is_an_empty_graph() {
    let (_folder, _, replica) = replica().await;
    let series = replica.series(Wanted::default(), POINTS_MAX).await.unwrap();
    assert!(series.is_empty());
    assert!(articles::plot::svg(&series).unwrap().contains("no likes yet"));
}

//! One suite for every storage adapter: what the port promises, on memory, SQLite and PostgreSQL.

use std::{collections::HashSet, sync::Arc, time::Duration};

use articles::{
    domain::{Article, ArticleId, AuthorId},
    series::{Series, Window},
    service::Articles,
    storage::{self, ARTICLE_LIKED, Storage, StorageError, TOPIC},
};
use jiff::Timestamp;
use tempfile::TempDir;

/// Storage, and what must live as long.
struct Bundle {
    storage: Arc<dyn Storage>,
    url: String,
    _folder: TempDir,
}

async fn open(url: String, folder: TempDir) -> Bundle {
    let storage = storage::open(&url).await.expect("storage for the test");
    Bundle { storage, url, _folder: folder }
}

async fn memory() -> Bundle {
    open("memory:".to_owned(), tempfile::tempdir().expect("a folder")).await
}

async fn sqlite() -> Bundle {
    let folder = tempfile::tempdir().expect("a folder");
    open(format!("sqlite:{}", folder.path().join("articles.db").display()), folder).await
}

async fn postgres() -> Bundle {
    let url = posthaste_fixtures::fresh_database(posthaste_fixtures::postgres());
    open(url.await.expect("a database"), tempfile::tempdir().expect("a folder")).await
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

fn article(id: i64, author: i64) -> Article {
    let (id, author) = (id.try_into().expect("an id"), author.try_into().expect("an id"));
    Article::publish(id, author, "text".to_owned(), at("2026-01-02T03:04:05.000000001Z"))
        .expect("a valid article")
}

fn id(number: i64) -> ArticleId {
    number.try_into().expect("an id")
}

async fn like(storage: &dyn Storage, article: i64, when: &'static str) {
    let change = move |article: &mut Article| {
        article.like(at(when));
        Ok(())
    };
    storage.update(id(article), Box::new(change)).await.expect("a like");
}

/// The same test on each adapter.
macro_rules! on_each_adapter {
    ($($name:ident)*) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn in_memory() {
                super::cases::$name(super::memory().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn on_sqlite() {
                super::cases::$name(super::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn on_postgres() {
                super::cases::$name(super::postgres().await).await;
            }
        })*
    };
}

on_each_adapter!(
    r7_01_what_is_loaded_has_no_events
    r7_03_an_article_is_inserted_once
    r7_03_what_is_not_there_is_named
    r7_03_a_refused_change_changes_nothing_and_tells_nothing
    r7_03_content_that_no_database_takes_is_refused_by_all
    r7_03_article_and_event_are_written_together
    r7_05_a_thousand_parallel_likes_are_a_thousand
    r7_05_likes_of_many_articles_do_not_mix
    r7_09_an_authors_series_counts_true_seconds
);

mod cases {
    use super::*;

    pub(super) async fn r7_01_what_is_loaded_has_no_events(t: Bundle) {
        t.storage.insert(article(1, 7)).await.expect("it works");
        like(&*t.storage, 1, "2026-01-02T03:04:06.123456789Z").await;
        let mut loaded = t.storage.get(id(1)).await.expect("it works");
        assert_eq!(loaded.likes(), 1);
        assert!(loaded.take_events().is_empty());
        // And all it is made of comes back, nanoseconds included.
        let expected = article(1, 7);
        assert_eq!(loaded.record().content, expected.record().content);
        assert_eq!(loaded.record().author_id, expected.record().author_id);
        assert_eq!(loaded.record().published_at, expected.record().published_at);
        assert_eq!(loaded.record().modified_at, expected.record().modified_at);
    }

    pub(super) async fn r7_03_an_article_is_inserted_once(t: Bundle) {
        t.storage.insert(article(1, 7)).await.expect("it works");
        let again = t.storage.insert(article(1, 8)).await;
        assert!(matches!(again, Err(StorageError::Exists(it)) if it == id(1)), "{again:?}");
        let kept = t.storage.get(id(1)).await.expect("it works");
        assert_eq!(kept.record().author_id.get(), 7, "the first one stays");
    }

    pub(super) async fn r7_03_what_is_not_there_is_named(t: Bundle) {
        let got = t.storage.get(id(999)).await;
        assert!(matches!(got, Err(StorageError::NotFound(it)) if it == id(999)), "{got:?}");
        let changed = t.storage.update(id(999), Box::new(|_| Ok(()))).await;
        assert!(matches!(changed, Err(StorageError::NotFound(_))), "{changed:?}");
        assert!(
            posthaste::testing::enqueued(t.storage.outbox()).await.expect("it works").is_empty()
        );
    }

    pub(super) async fn r7_03_a_refused_change_changes_nothing_and_tells_nothing(t: Bundle) {
        t.storage.insert(article(1, 7)).await.expect("it works");
        let change = |article: &mut Article| {
            article.like(at("2026-01-02T03:04:06Z"));
            article.update_content(String::new(), at("2026-01-02T03:04:06Z"))
        };
        let refused = t.storage.update(id(1), Box::new(change)).await;
        assert!(matches!(refused, Err(StorageError::Refused(_))), "{refused:?}");
        assert_eq!(t.storage.get(id(1)).await.expect("it works").likes(), 0);
        assert!(
            posthaste::testing::enqueued(t.storage.outbox()).await.expect("it works").is_empty()
        );
        assert_eq!(
            t.storage.bounds(7.try_into().expect("it works")).await.expect("it works"),
            None
        );
    }

    pub(super) async fn r7_03_content_that_no_database_takes_is_refused_by_all(t: Bundle) {
        let articles = Articles::new(Arc::clone(&t.storage), Timestamp::now);
        let author = AuthorId::try_from(7).expect("it works");
        let new = articles.publish(id(1), author, "a\0b".to_owned()).await;
        assert!(matches!(new, Err(StorageError::Refused(_))), "{new:?}");
        articles.publish(id(1), author, "text".to_owned()).await.expect("it works");
        let changed = articles.update_content(id(1), "a\0b".to_owned()).await;
        assert!(matches!(changed, Err(StorageError::Refused(_))), "{changed:?}");
        assert_eq!(articles.get(id(1)).await.expect("it works").content, "text");
    }

    pub(super) async fn r7_03_article_and_event_are_written_together(t: Bundle) {
        t.storage.insert(article(1, 7)).await.expect("it works");
        like(&*t.storage, 1, "2026-01-02T03:04:06.5+02:00").await;
        let enqueued = posthaste::testing::enqueued(t.storage.outbox()).await.expect("it works");
        let [message] = &enqueued[..] else { panic!("{} messages", enqueued.len()) };
        assert_eq!(message.topic, TOPIC);
        assert_eq!(message.key.as_deref(), Some("1"));
        assert_eq!(message.event_type.as_deref(), Some(ARTICLE_LIKED));
        let event: serde_json::Value = serde_json::from_slice(&message.payload).expect("it works");
        let expected = serde_json::json!({
            "event_id": message.id.to_string(),
            "article_id": 1,
            "author_id": 7,
            "timestamp": "2026-01-02T01:04:06.500000000Z",
        });
        assert_eq!(event, expected);
    }

    pub(super) async fn r7_05_a_thousand_parallel_likes_are_a_thousand(t: Bundle) {
        let articles = Articles::new(Arc::clone(&t.storage), Timestamp::now);
        articles.seed().await.expect("it works");
        let likes = (0..1000).map(|_| {
            let articles = articles.clone();
            tokio::spawn(async move { articles.like(id(1)).await.expect("a like").likes })
        });
        let mut answers = HashSet::new();
        for like in likes.collect::<Vec<_>>() {
            answers.insert(like.await.expect("it works"));
        }
        assert_eq!(answers.len(), 1000, "nobody was told the same number");
        assert_eq!(articles.get(id(1)).await.expect("it works").likes, 3 + 1000);
        let enqueued = posthaste::testing::enqueued(t.storage.outbox()).await.expect("it works");
        let ids: HashSet<_> = enqueued.iter().map(|message| message.id).collect();
        assert_eq!((enqueued.len(), ids.len()), (1000, 1000));
        let author = AuthorId::try_from(1).expect("it works");
        assert_eq!(articles.series(author, None).await.expect("it works").total, 1000);
        // And a relay sends every one, in the order in which they were counted.
        let sent = posthaste::testing::drain(t.storage.outbox()).await.expect("it works");
        let expected: Vec<_> = enqueued.iter().map(|message| message.id).collect();
        assert_eq!(sent.iter().map(|message| message.id).collect::<Vec<_>>(), expected);
    }

    pub(super) async fn r7_05_likes_of_many_articles_do_not_mix(t: Bundle) {
        for number in 1..=5 {
            t.storage.insert(article(number, number)).await.expect("it works");
        }
        let likes = (0..100).map(|n| {
            let storage = Arc::clone(&t.storage);
            tokio::spawn(async move { like(&*storage, n % 5 + 1, "2026-01-02T03:04:06Z").await })
        });
        for like in likes.collect::<Vec<_>>() {
            like.await.expect("it works");
        }
        for number in 1..=5 {
            assert_eq!(t.storage.get(id(number)).await.expect("it works").likes(), 20);
        }
        let enqueued = posthaste::testing::enqueued(t.storage.outbox()).await.expect("it works");
        let of_three = enqueued.iter().filter(|message| message.key.as_deref() == Some("3"));
        assert_eq!((enqueued.len(), of_three.count()), (100, 20));
    }

    pub(super) async fn r7_09_an_authors_series_counts_true_seconds(t: Bundle) {
        t.storage.insert(article(1, 7)).await.expect("it works");
        t.storage.insert(article(2, 8)).await.expect("it works");
        for when in [
            "2026-03-01T16:27:05.25+02:00",
            "2026-03-01T09:27:05-05:00",
            "2026-03-01T14:27:05.999999999Z",
            "2026-03-01T14:27:08Z",
        ] {
            like(&*t.storage, 1, when).await;
        }
        like(&*t.storage, 2, "2026-03-01T14:27:06Z").await;
        let author = AuthorId::try_from(7).expect("it works");
        let first = at("2026-03-01T14:27:05Z").as_second();
        assert_eq!(t.storage.bounds(author).await.expect("it works"), Some((first, first + 3)));
        let window = Window::covering(first, first + 3, 300);
        let series = Series::new(window, t.storage.count(author, window).await.expect("it works"));
        assert_eq!(series.totals(), [3, 0, 0, 1]);
    }
}

/// A like happens or it does not, whatever ends the process in between: here the task, at any await.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r7_03_a_like_that_is_cut_off_is_whole_or_not_there() {
    for t in [sqlite().await, postgres().await] {
        t.storage.insert(article(1, 7)).await.unwrap();
        for microseconds in (0..3000).step_by(50) {
            let storage = Arc::clone(&t.storage);
            let liking =
                tokio::spawn(async move { like(&*storage, 1, "2026-01-02T03:04:06Z").await });
            tokio::time::sleep(Duration::from_micros(microseconds)).await;
            liking.abort();
            let _ = liking.await;
        }
        // What was cut off may still be on its way to the end, so the two are asked for until they
        // agree; half a like would keep them apart for ever.
        let agree = async {
            loop {
                let likes = t.storage.get(id(1)).await.unwrap().likes();
                let enqueued = posthaste::testing::enqueued(t.storage.outbox()).await.unwrap();
                if likes == enqueued.len() as u64 {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        let agreed = tokio::time::timeout(Duration::from_secs(30), agree).await;
        assert!(agreed.is_ok(), "likes and events differ in {}", t.url);
    }
}

/// Clients that go at any moment, on a slow network: what is told to others afterwards to be kept is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r7_03_a_like_that_is_cut_off_takes_nothing_with_it() {
    let url = posthaste_fixtures::fresh_database(posthaste_fixtures::postgres()).await.unwrap();
    let options: sqlx::postgres::PgConnectOptions = url.parse().unwrap();
    let server = format!("{}:{}", options.get_host(), options.get_port());
    let proxy = posthaste_fixtures::Proxy::start(&server).await.unwrap();
    let proxied = url.replace(&server, &proxy.address().to_string());
    assert_ne!(proxied, url);
    let slow = storage::open(&proxied).await.unwrap();
    slow.insert(article(1, 7)).await.unwrap();
    proxy.delay(Duration::from_millis(20));
    for milliseconds in (0..250).step_by(10) {
        let storage = Arc::clone(&slow);
        let liking = tokio::spawn(async move { like(&*storage, 1, "2026-01-02T03:04:06Z").await });
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        liking.abort();
        let _ = liking.await;
    }
    proxy.heal();
    let inserts = (101..=150).map(|number| {
        let storage = Arc::clone(&slow);
        tokio::spawn(async move { storage.insert(article(number, 7)).await })
    });
    for insert in inserts.collect::<Vec<_>>() {
        insert.await.unwrap().unwrap();
    }
    let other = storage::open(&url).await.unwrap();
    for number in 101..=150 {
        other.get(id(number)).await.unwrap();
    }
}

#[tokio::test]
async fn r7_03_what_was_kept_is_there_after_a_restart() {
    for t in [sqlite().await, postgres().await] {
        t.storage.insert(article(1, 7)).await.unwrap();
        like(&*t.storage, 1, "2026-01-02T03:04:06Z").await;
        let again = storage::open(&t.url).await.unwrap();
        assert_eq!(again.get(id(1)).await.unwrap().likes(), 1);
        assert_eq!(again.source(), t.storage.source(), "the outbox keeps its name");
    }
}

#[tokio::test]
async fn two_storages_never_have_the_same_name() {
    let (a, b) = (sqlite().await, sqlite().await);
    assert_ne!(a.storage.source(), b.storage.source());
}

#[tokio::test]
async fn an_unknown_database_is_refused_without_its_password() {
    let refused = storage::open("oracle://me:hunter2@host/db").await;
    let Err(error) = refused else { panic!("opened") };
    assert!(!format!("{error:#}").contains("hunter2"), "{error:#}");
}

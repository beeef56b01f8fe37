//! The replica of a consumer: every received like, once, in an SQLite file. A message may come any
//! number of times. Its key is its position in the log of its outbox, so recognising a duplicate
//! costs one look-up, needs no memory, and has no window. The rule "higher than the last position"
//! would lose likes: a transaction that commits late brings a lower position after a higher one.

use jiff::Timestamp;
use posthaste::Incoming;
use serde::{Deserialize, Serialize};
use sqlx::{Sqlite, SqliteConnection, SqlitePool};

use crate::{
    domain::{ArticleId, AuthorId},
    series::{Count, Series, Window, second},
    storage::ARTICLE_LIKED,
};

/// Most authors in a list.
pub const AUTHORS_LISTED_MAX: i64 = 200;
/// Most numbers in a series, stretches times authors: what it holds in memory has a bound.
const NUMBERS_MAX: i64 = 1_000_000;

/// Likes that were received.
#[derive(Clone)]
pub struct Replica {
    pool: SqlitePool,
}

/// The result of applying messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Likes that were new.
    pub new: u64,
    /// Messages that had come before.
    pub repeated: u64,
    /// Invalid events.
    pub refused: u64,
}

/// An outbox likes come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its name.
    pub source: String,
    /// Likes of it.
    pub likes: i64,
    /// The highest place of its log that has come.
    pub seq: i64,
}

/// Which likes are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Of this author, or of all.
    pub author: Option<AuthorId>,
    /// From the first to the last of these seconds, or since the first like to the last.
    pub seconds: Option<(i64, i64)>,
}

/// The event as agreed; what else it holds is left alone.
#[derive(Deserialize)]
struct Liked {
    article_id: ArticleId,
    author_id: AuthorId,
    timestamp: String,
}

/// A like as it is kept.
struct Like {
    article_id: ArticleId,
    author_id: AuthorId,
    liked_at: String,
    second: i64,
}

impl Replica {
    /// Opens the file of a `sqlite:` URL; creates it where there is none.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub async fn open(url: &str) -> anyhow::Result<Self> {
        let pool = posthaste::sqlite::connect(url).await?;
        sqlx::raw_sql(include_str!("../sql/replica/create_tables.sql")).execute(&pool).await?;
        Ok(Self { pool })
    }

    /// Keeps messages, all or none; once it has returned they survive this process and the machine.
    ///
    /// # Errors
    /// When the file cannot be written: acknowledge nothing.
    pub async fn apply(&self, messages: &[Incoming]) -> Result<Applied, sqlx::Error> {
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        let mut applied = Applied::default();
        for message in messages {
            let (is_new, is_like) = match read(message) {
                Ok(Some(like)) => (insert(&mut tx, message, like).await?, true),
                Ok(None) => continue,
                Err(reason) => (refuse(&mut tx, message, &reason).await?, false),
            };
            match (is_new, is_like) {
                (true, true) => applied.new += 1,
                (true, false) => applied.refused += 1,
                (false, _) => applied.repeated += 1,
            }
        }
        tx.commit().await?;
        Ok(applied)
    }

    /// Likes by second, or by longer stretches where that would be more than `points_max`, or more
    /// numbers than anybody should hold because there are very many authors.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn series(&self, wanted: Wanted, points_max: i64) -> Result<Series, sqlx::Error> {
        let author = wanted.author.map(AuthorId::get);
        let bounds = sqlx::query_as::<Sqlite, (Option<i64>, Option<i64>)>(include_str!(
            "../sql/replica/select_bounds.sql"
        ));
        let seconds = match wanted.seconds {
            Some(seconds) => Some(seconds),
            None => {
                let (first, last) = bounds.bind(author).fetch_one(&self.pool).await?;
                first.zip(last)
            }
        };
        let Some((first, last)) = seconds else {
            return Ok(Series::empty());
        };
        let authors = if author.is_some() { 1 } else { self.authors_count().await?.max(1) };
        let points_max = points_max.min(NUMBERS_MAX / authors).max(1);
        let window = Window::covering(first, last, points_max);
        let counts: Vec<(i64, i64, i64)> =
            sqlx::query_as::<Sqlite, _>(include_str!("../sql/replica/count_likes.sql"))
                .bind(author)
                .bind(window.from())
                .bind(window.until())
                .bind(window.step_seconds())
                .fetch_all(&self.pool)
                .await?;
        // Only what `apply` checked is in there.
        let counts = counts.into_iter().filter_map(|(author, stretch, likes)| {
            Some((AuthorId::try_from(author).ok()?, stretch, likes))
        });
        Ok(Series::new(window, Count::of_rows(counts)))
    }

    /// Where likes come from.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn sources(&self) -> Result<Vec<Source>, sqlx::Error> {
        let rows: Vec<(String, i64, i64)> =
            sqlx::query_as::<Sqlite, _>(include_str!("../sql/replica/select_sources.sql"))
                .fetch_all(&self.pool)
                .await?;
        Ok(rows.into_iter().map(|(source, likes, seq)| Source { source, likes, seq }).collect())
    }

    /// Who was liked and how often, the most liked first, [`AUTHORS_LISTED_MAX`] at most.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn authors(&self) -> Result<Vec<(i64, i64)>, sqlx::Error> {
        sqlx::query_as::<Sqlite, _>(include_str!("../sql/replica/select_authors.sql"))
            .bind(AUTHORS_LISTED_MAX)
            .fetch_all(&self.pool)
            .await
    }

    /// How many authors were liked.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn authors_count(&self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar::<Sqlite, _>(include_str!("../sql/replica/count_authors.sql"))
            .fetch_one(&self.pool)
            .await
    }

    /// The number of invalid events.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn refused(&self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar::<Sqlite, _>(include_str!("../sql/replica/count_refused.sql"))
            .fetch_one(&self.pool)
            .await
    }
}

/// The like a message tells of; nothing, where it tells of something else.
fn read(Incoming { message, .. }: &Incoming) -> Result<Option<Like>, String> {
    if message.event_type.as_deref() != Some(ARTICLE_LIKED) {
        return Ok(None);
    }
    let liked: Liked =
        serde_json::from_slice(&message.payload).map_err(|error| error.to_string())?;
    let at: Timestamp = liked.timestamp.parse().map_err(|error: jiff::Error| error.to_string())?;
    Ok(Some(Like {
        article_id: liked.article_id,
        author_id: liked.author_id,
        liked_at: liked.timestamp,
        second: second(at),
    }))
}

/// Whether it was new.
async fn insert(
    connection: &mut SqliteConnection,
    Incoming { message, provenance, .. }: &Incoming,
    like: Like,
) -> Result<bool, sqlx::Error> {
    let source = provenance.source.as_deref().unwrap_or_default();
    let seq = provenance.seq.unwrap_or_default();
    let inserted = sqlx::query::<Sqlite>(include_str!("../sql/replica/insert_like.sql"))
        .bind(source)
        .bind(seq)
        .bind(message.id.to_string())
        .bind(like.article_id.get())
        .bind(like.author_id.get())
        .bind(like.liked_at)
        .bind(like.second)
        .execute(&mut *connection)
        .await?;
    if inserted.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query::<Sqlite>(include_str!("../sql/replica/count_like_of_source.sql"))
        .bind(source)
        .bind(seq)
        .execute(&mut *connection)
        .await?;
    sqlx::query::<Sqlite>(include_str!("../sql/replica/count_like_of_author.sql"))
        .bind(like.author_id.get())
        .execute(connection)
        .await?;
    Ok(true)
}

/// Whether it was new.
async fn refuse(
    connection: &mut SqliteConnection,
    Incoming { message, provenance, .. }: &Incoming,
    reason: &str,
) -> Result<bool, sqlx::Error> {
    let inserted = sqlx::query::<Sqlite>(include_str!("../sql/replica/insert_refused.sql"))
        .bind(provenance.source.as_deref().unwrap_or_default())
        .bind(provenance.seq.unwrap_or_default())
        .bind(message.id.to_string())
        .bind(reason)
        .execute(connection)
        .await?;
    Ok(inserted.rows_affected() > 0)
}

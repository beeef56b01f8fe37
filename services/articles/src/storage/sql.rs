//! What the adapters for SQL databases share: the rows of articles, and the statements.

use jiff::Timestamp;

use super::StorageError;
use crate::domain::{ArticleRecord, nanoseconds};

/// The columns of `articles`, in the order of the statements.
pub(super) type Columns = (i64, i64, String, i64, String, String);

/// A row of `articles`.
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) author_id: i64,
    pub(super) content: String,
    pub(super) likes: i64,
    pub(super) published_at: String,
    pub(super) modified_at: String,
}

impl From<Columns> for Row {
    fn from(columns: Columns) -> Self {
        let (id, author_id, content, likes, published_at, modified_at) = columns;
        Self { id, author_id, content, likes, published_at, modified_at }
    }
}

impl Row {
    pub(super) fn of(record: &ArticleRecord) -> Self {
        Self {
            id: record.id.get(),
            author_id: record.author_id.get(),
            content: record.content.clone(),
            likes: i64::try_from(record.likes).unwrap_or(i64::MAX),
            published_at: nanoseconds::format(record.published_at),
            modified_at: nanoseconds::format(record.modified_at),
        }
    }

    pub(super) fn record(self) -> Result<ArticleRecord, StorageError> {
        let corrupt = |what| StorageError::Corrupt { what };
        let instant = |what, text: &str| text.parse::<Timestamp>().map_err(|_| corrupt(what));
        Ok(ArticleRecord {
            id: self.id.try_into().map_err(|_| corrupt("article id"))?,
            author_id: self.author_id.try_into().map_err(|_| corrupt("author id"))?,
            content: self.content,
            likes: u64::try_from(self.likes).map_err(|_| corrupt("number of likes"))?,
            published_at: instant("publishing time", &self.published_at)?,
            modified_at: instant("modification time", &self.modified_at)?,
        })
    }
}

/// The statements of one database as functions. They differ in the types of the driver only, which
/// sqlx cannot abstract over without a page of bounds.
macro_rules! statements {
    ($database:ty) => {
        type Connection = <$database as sqlx::Database>::Connection;

        /// Creates tables and the name of this outbox where there are none; returns the name.
        async fn create(connection: &mut Connection) -> Result<String, StorageError> {
            sqlx::raw_sql(include_str!("../../sql/create_tables.sql"))
                .execute(&mut *connection)
                .await?;
            sqlx::query::<$database>(include_str!("../../sql/insert_source.sql"))
                .bind(fresh_source())
                .execute(&mut *connection)
                .await?;
            let source = sqlx::query_scalar::<$database, String>(include_str!(
                "../../sql/select_source.sql"
            ));
            Ok(source.fetch_one(connection).await?)
        }

        async fn select(
            connection: &mut Connection,
            statement: &'static str,
            id: ArticleId,
        ) -> Result<Article, StorageError> {
            let row = sqlx::query_as::<$database, Columns>(statement).bind(id.get());
            let columns = row.fetch_optional(connection).await?;
            let row = Row::from(columns.ok_or(StorageError::NotFound(id))?);
            Ok(Article::reload(row.record()?))
        }

        async fn insert(
            connection: &mut Connection,
            article: &Article,
        ) -> Result<(), StorageError> {
            let row = Row::of(article.record());
            let inserted = sqlx::query::<$database>(include_str!("../../sql/insert_article.sql"))
                .bind(row.id)
                .bind(row.author_id)
                .bind(row.content)
                .bind(row.likes)
                .bind(row.published_at)
                .bind(row.modified_at)
                .execute(connection)
                .await?;
            if inserted.rows_affected() == 0 {
                return Err(StorageError::Exists(article.id()));
            }
            Ok(())
        }

        /// Writes back an article that the transaction has locked, and its events with it: for the
        /// series and, by the outbox, for everybody else.
        async fn save(
            connection: &mut Connection,
            mut article: Article,
        ) -> Result<Changed, StorageError> {
            let row = Row::of(article.record());
            sqlx::query::<$database>(include_str!("../../sql/update_article.sql"))
                .bind(row.id)
                .bind(row.content)
                .bind(row.likes)
                .bind(row.modified_at)
                .execute(&mut *connection)
                .await?;
            let events = article.take_events();
            for event in &events {
                sqlx::query::<$database>(include_str!("../../sql/insert_like.sql"))
                    .bind(event.event_id().to_string())
                    .bind(event.article_id().get())
                    .bind(event.author_id().get())
                    .bind(nanoseconds::format(event.timestamp()))
                    .bind(second(event.timestamp()))
                    .execute(&mut *connection)
                    .await?;
            }
            Outbox::<$database>::new().enqueue_all(connection, messages(&events)?).await?;
            Ok(Changed { article, events })
        }

        async fn bounds(
            connection: &mut Connection,
            author: AuthorId,
        ) -> Result<Option<(i64, i64)>, StorageError> {
            let bounds = sqlx::query_as::<$database, (Option<i64>, Option<i64>)>(include_str!(
                "../../sql/select_bounds.sql"
            ));
            let (first, last) = bounds.bind(author.get()).fetch_one(connection).await?;
            Ok(first.zip(last))
        }

        async fn count(
            connection: &mut Connection,
            author: AuthorId,
            window: Window,
        ) -> Result<Vec<Count>, StorageError> {
            let counts =
                sqlx::query_as::<$database, (i64, i64)>(include_str!("../../sql/count_likes.sql"));
            let counts = counts
                .bind(author.get())
                .bind(window.from())
                .bind(window.until())
                .bind(window.step_seconds())
                .fetch_all(connection)
                .await?;
            Ok(Count::of_rows(counts.into_iter().map(|(stretch, likes)| (author, stretch, likes))))
        }
    };
}

pub(super) use statements;

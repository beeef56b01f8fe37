//! The verdict of the demo, computed only from the two databases.

use anyhow::Result;
use sqlx::SqlitePool;

/// The counts that decide the verdict.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Orders in the shop's database.
    pub(super) committed: i64,
    /// Orders whose message arrived at least once.
    pub(super) delivered: i64,
    /// Orders whose message never arrived.
    pub(super) lost: i64,
    /// Messages that arrived without an order: sent although rolled back.
    pub(super) phantom: i64,
    /// First arrivals that came before an earlier order of the same customer.
    pub(super) reordered: i64,
    /// Arrivals beyond the first.
    pub(super) duplicates: i64,
}

impl Verdict {
    /// Whether every promise held. Duplicates break no promise and are only counted.
    pub(super) fn holds(&self) -> bool {
        self.committed > 0
            && self.committed == self.delivered
            && self.lost == 0
            && self.phantom == 0
            && self.reordered == 0
    }

    /// Compares the shop's database with the warehouse's, given by its file's path.
    pub(super) async fn of(shop: &SqlitePool, warehouse: &str) -> Result<Self> {
        let mut connection = shop.acquire().await?;
        sqlx::query("ATTACH DATABASE ? AS warehouse")
            .bind(warehouse)
            .execute(&mut *connection)
            .await?;
        let (committed, delivered, lost, phantom, reordered, duplicates) = sqlx::query_as(
            "WITH first AS (
                SELECT message, customer, number, MIN(at) AS at FROM warehouse.received GROUP BY message
             ), ordered AS (
                SELECT number, LAG(number, 1, 0) OVER (PARTITION BY customer ORDER BY at) AS before
                FROM first
             )
             SELECT (SELECT COUNT(*) FROM orders),
                    (SELECT COUNT(*) FROM orders WHERE message IN (SELECT message FROM first)),
                    (SELECT COUNT(*) FROM orders WHERE message NOT IN (SELECT message FROM first)),
                    (SELECT COUNT(*) FROM first WHERE message NOT IN (SELECT message FROM orders)),
                    (SELECT COUNT(*) FROM ordered WHERE number <= before),
                    (SELECT COUNT(*) FROM warehouse.received) - (SELECT COUNT(*) FROM first)",
        )
        .fetch_one(&mut *connection)
        .await?;
        Ok(Self { committed, delivered, lost, phantom, reordered, duplicates })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{shop, warehouse};

    async fn verdict(orders: &[(&str, i64)], arrivals: &[(&str, i64)]) -> Verdict {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let shop = shop::open(&format!("sqlite:{}", path("shop.db"))).await.unwrap();
        let house = warehouse::open(&format!("sqlite:{}", path("house.db"))).await.unwrap();
        for (message, number) in orders {
            sqlx::query("INSERT INTO orders VALUES (?1, 1, ?2, ?1)")
                .bind(message)
                .bind(number)
                .execute(&shop)
                .await
                .unwrap();
        }
        for (message, number) in arrivals {
            sqlx::query("INSERT INTO received (message, customer, number) VALUES (?, 1, ?)")
                .bind(message)
                .bind(number)
                .execute(&house)
                .await
                .unwrap();
        }
        Verdict::of(&shop, &path("house.db")).await.unwrap()
    }

    #[tokio::test]
    async fn each_broken_promise_is_seen() {
        let orders = [("a", 1), ("b", 2), ("c", 3)];
        assert!(verdict(&orders, &orders).await.holds());
        let again = verdict(&orders, &[("a", 1), ("b", 2), ("a", 1), ("c", 3)]).await;
        assert!(again.holds() && again.duplicates == 1, "{again:?}");
        let lost = verdict(&orders, &orders[..2]).await;
        assert!(!lost.holds() && lost.lost == 1, "{lost:?}");
        let phantom = verdict(&orders[..2], &orders).await;
        assert!(!phantom.holds() && phantom.phantom == 1, "{phantom:?}");
        let reordered = verdict(&orders, &[("b", 2), ("a", 1), ("c", 3)]).await;
        assert!(!reordered.holds() && reordered.reordered == 1, "{reordered:?}");
        assert!(!verdict(&[], &[]).await.holds(), "nothing happened, so nothing was shown");
    }
}

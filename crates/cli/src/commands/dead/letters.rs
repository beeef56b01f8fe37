//! Dead letters of routes and of consumers as one list.

use std::sync::Arc;

use posthaste_core::{InboxStore, MessageId, ParkedFilter, ParkedView, Store, StoreError};

use crate::args::Filter;

/// A dead letter, of a route or of a consumer.
pub(crate) struct Found {
    /// The letter; for a consumer's dead letter, its `route` is the consumer's name.
    pub(crate) parked: ParkedView,
    /// Whether a consumer could not handle it; else a route could not deliver it.
    pub(crate) is_consumers: bool,
}

impl Found {
    /// The route that could not deliver it.
    pub(crate) fn route(&self) -> Option<&str> {
        (!self.is_consumers).then_some(&self.parked.route)
    }

    /// The consumer that could not handle it.
    pub(crate) fn consumer(&self) -> Option<&str> {
        self.is_consumers.then_some(&self.parked.route)
    }

    /// The route or consumer, for people.
    pub(crate) fn owner(&self) -> String {
        match self.consumer() {
            Some(consumer) => format!("consumer {consumer}"),
            None => self.parked.route.clone(),
        }
    }
}

/// Every dead letter of a database.
pub(crate) struct Letters {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) inbox: Arc<dyn InboxStore>,
}

/// Filters of dead letters of routes and of consumers; `None` selects none of that side.
pub(crate) struct Meant {
    pub(crate) routes: Option<ParkedFilter>,
    pub(crate) consumers: Option<ParkedFilter>,
}

impl Meant {
    pub(crate) fn new(filter: &Filter, ids: &[MessageId]) -> Self {
        let of = |route: &Option<String>| ParkedFilter {
            route: route.clone(),
            ids: ids.to_vec(),
            topic: filter.topic.clone(),
            class: filter.class.clone(),
            is_retrying: false,
        };
        Self {
            routes: filter.consumer.is_none().then(|| of(&filter.route)),
            consumers: filter.route.is_none().then(|| of(&filter.consumer)),
        }
    }

    /// The same filter, of messages that routes are still retrying.
    pub(crate) fn retrying(filter: &Filter, ids: &[MessageId]) -> Self {
        let mut meant = Self { consumers: None, ..Self::new(filter, ids) };
        if let Some(routes) = &mut meant.routes {
            routes.is_retrying = true;
        }
        meant
    }

    /// The noun for the selected messages.
    pub(crate) fn noun(&self) -> &'static str {
        let is_retrying = self.routes.as_ref().is_some_and(|filter| filter.is_retrying);
        if is_retrying { "retrying message" } else { "dead letter" }
    }
}

impl Letters {
    /// The matching messages, at most `limit`, those of routes first.
    ///
    /// # Errors
    /// Any error of the store.
    pub(crate) async fn find(&self, meant: &Meant, limit: u32) -> Result<Vec<Found>, StoreError> {
        let mut found = Vec::new();
        if let Some(filter) = &meant.routes {
            found.extend(of(self.store.dead(filter, limit).await?, false));
        }
        if let Some(filter) = &meant.consumers {
            let room = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
            if room > 0 {
                found.extend(of(self.inbox.letters(filter, room).await?, true));
            }
        }
        Ok(found)
    }

    /// Redrives the matching dead letters and returns their number.
    ///
    /// # Errors
    /// Any error of the store.
    pub(crate) async fn redrive(&self, meant: &Meant, by: &str) -> Result<u64, StoreError> {
        let mut count = 0;
        if let Some(filter) = &meant.routes {
            count += self.store.redrive(filter, by).await?;
        }
        if let Some(filter) = &meant.consumers {
            count += self.inbox.redrive_letters(filter, by).await?;
        }
        Ok(count)
    }

    /// Discards the matching messages and returns their number.
    ///
    /// # Errors
    /// Any error of the store.
    pub(crate) async fn discard(
        &self,
        meant: &Meant,
        by: &str,
        why: &str,
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        if let Some(filter) = &meant.routes {
            count += self.store.discard(filter, by, why).await?;
        }
        if let Some(filter) = &meant.consumers {
            count += self.inbox.discard_letters(filter, by, why).await?;
        }
        Ok(count)
    }
}

fn of(views: Vec<ParkedView>, is_consumers: bool) -> impl Iterator<Item = Found> {
    views.into_iter().map(move |parked| Found { parked, is_consumers })
}

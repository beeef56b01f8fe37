//! Batches concurrent calls into shared statements: calls that arrive while a statement of their
//! kind is running wait, and together form the next statement. No call waits for others to arrive,
//! so a single call is not delayed; and the more calls there are, the less each costs.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::application::LedgerError;

/// Most calls in one statement.
const TOGETHER_MAX: usize = 100;

/// Most calls that wait for the next statement; further calls wait for a free place.
const WAITING_MAX: usize = 1000;

/// A kind of calls.
pub(super) trait Kind: Send + Sync + 'static {
    /// The request of a call.
    type Ask: Send + Sync + 'static;
    /// The answer to a call.
    type Answer: Send + 'static;

    /// Returns one answer for each request, in the same order. A failure applies to all of them.
    fn answer(
        &self,
        asks: &[Self::Ask],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, LedgerError>> + Send;
}

/// A waiting call, and the channel for its answer.
type Call<K> = (<K as Kind>::Ask, oneshot::Sender<Result<<K as Kind>::Answer, LedgerError>>);

/// The batcher of one kind of calls.
pub(super) struct Together<K: Kind> {
    /// Waiting calls; the task that reads them ends when this sender is dropped.
    calls: mpsc::Sender<Call<K>>,
}

impl<K: Kind> Together<K> {
    /// Starts a batcher. It needs a runtime.
    pub(super) fn new(kind: K) -> Self {
        let (calls, mut called) = mpsc::channel(WAITING_MAX);
        let kind = Arc::new(kind);
        tokio::spawn(async move {
            loop {
                let mut together = Vec::new();
                if called.recv_many(&mut together, TOGETHER_MAX).await == 0 {
                    return;
                }
                // Cancelled callers are dropped from the batch: they were told that the call
                // failed, and may have repeated it.
                together.retain(|(_, tell): &Call<K>| !tell.is_closed());
                if together.is_empty() {
                    continue;
                }
                let kind = Arc::clone(&kind);
                // In its own task, so that a panic ends only these calls.
                let _ = tokio::spawn(async move { answer(&*kind, together).await }).await;
            }
        });
        Self { calls }
    }

    /// Makes a call, batched with concurrent calls.
    pub(super) async fn ask(&self, ask: K::Ask) -> Result<K::Answer, LedgerError> {
        let (tell, told) = oneshot::channel();
        // Only a panic leaves a call without an answer.
        let lost = || LedgerError::Internal("the statement ended without an answer".to_owned());
        self.calls.send((ask, tell)).await.map_err(|_| lost())?;
        told.await.map_err(|_| lost())?
    }
}

/// Answers calls with one statement. If the statement fails although the database is available, the
/// failing call is unknown, so each call is tried alone, unless its caller was cancelled meanwhile.
async fn answer<K: Kind>(kind: &K, together: Vec<Call<K>>) {
    let (asks, tells): (Vec<_>, Vec<_>) = together.into_iter().unzip();
    match kind.answer(&asks).await {
        Ok(answers) => {
            for (tell, answer) in tells.into_iter().zip(answers) {
                // A cancelled caller does not need the answer.
                let _ = tell.send(Ok(answer));
            }
        }
        Err(LedgerError::Internal(_) | LedgerError::Held(_)) if asks.len() > 1 => {
            let calls = tells.into_iter().zip(asks.chunks(1));
            for (tell, ask) in calls.filter(|(tell, _)| !tell.is_closed()) {
                let answer = kind.answer(ask).await;
                let none = || LedgerError::Internal("there is no answer".to_owned());
                let _ = tell.send(answer.and_then(|mut one| one.pop().ok_or_else(none)));
            }
        }
        Err(error) => {
            for tell in tells {
                let _ = tell.send(Err(error.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::{
        sync::Semaphore,
        task::{JoinHandle, yield_now},
    };

    use super::*;

    /// Doubles numbers. Some are unlucky for everybody who asks with them.
    struct Doubles {
        /// Closed until everybody has met.
        gate: Semaphore,
        statements: Mutex<Vec<Vec<u32>>>,
    }

    const WRONG: u32 = 13;
    const AWAY: u32 = 14;
    const BUG: u32 = 15;
    const HELD: u32 = 16;

    impl Doubles {
        fn new(permits: usize) -> Arc<Self> {
            Arc::new(Self { gate: Semaphore::new(permits), statements: Mutex::default() })
        }
    }

    impl Kind for Arc<Doubles> {
        type Ask = u32;
        type Answer = u32;

        async fn answer(&self, asks: &[u32]) -> Result<Vec<u32>, LedgerError> {
            self.statements.lock().unwrap().push(asks.to_vec());
            let _open = self.gate.acquire().await.unwrap();
            assert!(!asks.contains(&BUG), "a bug");
            if asks.contains(&AWAY) {
                return Err(LedgerError::Unavailable("away".to_owned()));
            }
            if asks.contains(&HELD) {
                return Err(LedgerError::Held("held".to_owned()));
            }
            if asks.contains(&WRONG) {
                return Err(LedgerError::Internal("wrong".to_owned()));
            }
            Ok(asks.iter().map(|ask| ask * 2).collect())
        }
    }

    /// What is answered to asks that come during another statement, and the statements made for
    /// them.
    async fn meet(asks: &[u32]) -> (Vec<Result<u32, LedgerError>>, Vec<Vec<u32>>) {
        let doubles = Doubles::new(0);
        let together = Arc::new(Together::new(Arc::clone(&doubles)));
        let ask = |ask| -> JoinHandle<_> {
            let together = Arc::clone(&together);
            tokio::spawn(async move { together.ask(ask).await })
        };
        drop(ask(0));
        while doubles.statements.lock().unwrap().is_empty() {
            yield_now().await;
        }
        let asked: Vec<_> = asks.iter().map(|n| ask(*n)).collect();
        while together.calls.capacity() > WAITING_MAX - asks.len() {
            yield_now().await;
        }
        doubles.gate.add_permits(1);
        let mut answers = Vec::new();
        for told in asked {
            answers.push(told.await.unwrap());
        }
        let statements = doubles.statements.lock().unwrap().split_off(1);
        (answers, statements)
    }

    #[tokio::test]
    async fn who_waits_shares_a_statement() {
        let (answers, statements) = meet(&[5, 6, 7]).await;
        assert!(matches!(answers[..], [Ok(10), Ok(12), Ok(14)]), "{answers:?}");
        assert_eq!(statements, [[5, 6, 7]]);
    }

    #[tokio::test]
    async fn a_failure_is_that_of_one_call_alone() {
        let (answers, statements) = meet(&[5, WRONG, 7]).await;
        let [Ok(10), Err(LedgerError::Internal(_)), Ok(14)] = answers[..] else {
            panic!("{answers:?}");
        };
        assert_eq!(statements, [vec![5, WRONG, 7], vec![5], vec![WRONG], vec![7]]);
    }

    #[tokio::test]
    async fn what_somebody_holds_concerns_one_call_alone() {
        let (answers, statements) = meet(&[5, HELD, 7]).await;
        let [Ok(10), Err(LedgerError::Held(_)), Ok(14)] = answers[..] else {
            panic!("{answers:?}");
        };
        assert_eq!(statements, [vec![5, HELD, 7], vec![5], vec![HELD], vec![7]]);
    }

    /// A call that was given up: it was told that it failed, and must not be done behind its back.
    #[tokio::test]
    async fn who_has_gone_is_not_asked_for() {
        let doubles = Doubles::new(0);
        let together = Arc::new(Together::new(Arc::clone(&doubles)));
        let ask = |ask| -> JoinHandle<_> {
            let together = Arc::clone(&together);
            tokio::spawn(async move { together.ask(ask).await })
        };
        let first = ask(1);
        while doubles.statements.lock().unwrap().is_empty() {
            yield_now().await;
        }
        let given_up = [ask(2), ask(3)];
        let waits = ask(4);
        while together.calls.capacity() > WAITING_MAX - 3 {
            yield_now().await;
        }
        for call in given_up {
            call.abort();
            assert!(call.await.unwrap_err().is_cancelled());
        }
        doubles.gate.add_permits(1);
        assert_eq!(first.await.unwrap().unwrap(), 2);
        assert_eq!(waits.await.unwrap().unwrap(), 8);
        assert_eq!(*doubles.statements.lock().unwrap(), [[1], [4]]);
    }

    #[tokio::test]
    async fn an_outage_is_everybodys() {
        let (answers, statements) = meet(&[5, AWAY, 7]).await;
        let is_away = |it: &Result<_, _>| matches!(it, Err(LedgerError::Unavailable(_)));
        assert!(answers.iter().all(is_away), "{answers:?}");
        assert_eq!(statements.len(), 1);
    }

    #[tokio::test]
    async fn a_panic_ends_its_own_calls_and_no_others() {
        let together = Together::new(Doubles::new(1));
        assert!(matches!(together.ask(BUG).await, Err(LedgerError::Internal(_))));
        assert_eq!(together.ask(21).await.unwrap(), 42);
    }
}

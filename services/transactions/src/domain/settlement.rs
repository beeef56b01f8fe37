//! Settling: whether a transfer goes through.

use super::Status;

/// How far below zero a sender may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overdraft {
    /// As far as they like: there is no money to begin with, only who owes whom.
    #[default]
    Unlimited,
    /// So many minor units and no more.
    AtMost(u64),
}

/// What settling a transfer came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// `COMPLETED` or `FAILED`.
    pub status: Status,
    /// What the sender's balance loses and the receiver's gains.
    pub moved: i128,
}

impl Settlement {
    /// Decides about a transfer of `amount` by a sender whose settled balance is `balance`.
    #[must_use]
    pub fn decide(amount: i64, balance: i128, overdraft: Overdraft) -> Self {
        let after = balance - i128::from(amount);
        match overdraft {
            Overdraft::AtMost(limit) if after < -i128::from(limit) => {
                Self { status: Status::Failed, moved: 0 }
            }
            _ => Self { status: Status::Completed, moved: i128::from(amount) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_beyond_the_overdraft_fails_and_moves_nothing() {
        let decide = |amount, balance, overdraft| Settlement::decide(amount, balance, overdraft);
        let failed = Settlement { status: Status::Failed, moved: 0 };
        assert_eq!(decide(101, 0, Overdraft::AtMost(100)), failed);
        assert_eq!(decide(100, 0, Overdraft::AtMost(100)).moved, 100);
        assert_eq!(decide(1, 1, Overdraft::AtMost(0)).status, Status::Completed);
        assert_eq!(decide(2, 1, Overdraft::AtMost(0)), failed);
        let deep = i128::from(i64::MIN) * 1000;
        assert_eq!(decide(i64::MAX, deep, Overdraft::Unlimited).moved, i128::from(i64::MAX));
    }
}

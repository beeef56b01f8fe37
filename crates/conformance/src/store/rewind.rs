//! Noticing that the log went back in time. No case here takes a database back: a holder that knows of
//! something the log has not seen is the same to the store.

use posthaste_core::{
    Claim, Entry, Evidence, Fetch, Grant, Lease, MessageId, Position, Rewound, Settlement, Shard,
    StoreError, StoreErrorKind, Witness,
};
use uuid::Uuid;

use super::{
    case::cases,
    kit::{Kit, ROUTE, Reader, assert_kind, claim, fetch, keyless_many},
};

cases! { "rewind";
    Nothing: [
        evidence_of_this_log_is_found,
        fetch_without_the_evidence_is_refused,
        settlement_without_the_evidence_writes_nothing,
        epoch_from_the_future_is_a_rewind,
        position_ahead_of_the_log_is_not_granted,
        rewound_claim_renames_the_log_once,
        rewound_claim_ends_every_lease_of_the_route,
    ],
}

/// A shard that was served for a while: its lease, how far it is, and what its holder knows.
struct Served {
    lease: Lease,
    log: Uuid,
    position: Position,
    evidence: Evidence,
}

async fn serve(kit: &Kit) -> Result<Served, StoreError> {
    let Grant { lease, log, mut evidence, .. } = kit.serving().await?;
    kit.commit(&keyless_many(5)).await?;
    let mut reader = Reader::paging(kit, 100);
    reader.fetch.evidence = Some(evidence.clone());
    evidence.witness = reader.page().await?.witness;
    let position = reader.position().clone();
    let settlement = Settlement {
        position: Some(position.clone()),
        evidence: Some(evidence.clone()),
        ..Settlement::default()
    };
    evidence.entry = kit.store.settle(&lease, &settlement).await?.entry;
    assert!(evidence.witness.is_some(), "a fetch that looked at rows names the last of them");
    assert!(evidence.entry > Entry::default(), "a settlement names its entry");
    Ok(Served { lease, log, position, evidence })
}

impl Served {
    fn fetch(&self, evidence: Evidence, after: &Position) -> Fetch {
        Fetch {
            after: after.clone(),
            epoch: Some(self.lease.epoch),
            evidence: Some(evidence),
            ..fetch(ROUTE, Shard::WHOLE)
        }
    }

    /// What a holder in another history could know, and how far it could be.
    fn strange(&self) -> Vec<(&'static str, Evidence, Position)> {
        let Evidence { entry, witness, .. } = self.evidence;
        let other = witness.map(|it| Witness { id: MessageId(Uuid::from_u128(7)), ..it });
        let unread = witness.map(|it| Witness { seq: it.seq + 1, ..it });
        let later = Entry { n: entry.n + 1, ..entry };
        let last = self.position.steps().last().expect("something was read");
        let ahead = Position::at(last.seq + 1, last.snapshot.clone());
        let known = &self.evidence;
        vec![
            (
                "a journal that ends early",
                Evidence { entry: later, ..known.clone() },
                self.position.clone(),
            ),
            (
                "another message",
                Evidence { witness: other, ..known.clone() },
                self.position.clone(),
            ),
            (
                "a row that is not there",
                Evidence { witness: unread, ..known.clone() },
                self.position.clone(),
            ),
            ("a seq not handed out", known.clone(), ahead),
        ]
    }
}

async fn evidence_of_this_log_is_found(kit: Kit) -> Result<(), StoreError> {
    let served = serve(&kit).await?;
    let batch = kit.store.fetch(&served.fetch(served.evidence.clone(), &served.position)).await?;
    assert!(batch.messages.is_empty() && batch.witness.is_none());
    // Entries of earlier terms and rows that are gone are no evidence against it.
    let gone = Witness { seq: 0, id: MessageId(Uuid::from_u128(7)) };
    let early =
        Evidence { entry: Entry::default(), witness: Some(gone), ..served.evidence.clone() };
    kit.store.fetch(&served.fetch(early.clone(), &served.position)).await?;
    let settlement = Settlement {
        position: Some(served.position.clone()),
        evidence: Some(early),
        ..Settlement::default()
    };
    let settled = kit.store.settle(&served.lease, &settlement).await?;
    assert!(settled.entry >= served.evidence.entry || settled.entry.n == 1);
    Ok(())
}

async fn fetch_without_the_evidence_is_refused(kit: Kit) -> Result<(), StoreError> {
    let served = serve(&kit).await?;
    for (what, evidence, after) in served.strange() {
        let fetched = kit.store.fetch(&served.fetch(evidence, &after)).await;
        assert_kind(fetched, StoreErrorKind::Rewound, what);
    }
    Ok(())
}

async fn settlement_without_the_evidence_writes_nothing(kit: Kit) -> Result<(), StoreError> {
    let served = serve(&kit).await?;
    kit.commit(&keyless_many(5)).await?;
    for (what, evidence, position) in served.strange() {
        // Far enough ahead where that is what is strange.
        let position = match what {
            "a seq not handed out" => {
                Position::at(position.seq() + 5, position.steps()[0].snapshot.clone())
            }
            _ => position,
        };
        for delivered in [vec![], vec![1]] {
            let settlement = Settlement {
                position: Some(position.clone()),
                delivered,
                evidence: Some(evidence.clone()),
                ..Settlement::default()
            };
            let settled = kit.store.settle(&served.lease, &settlement).await;
            assert_kind(settled, StoreErrorKind::Rewound, what);
        }
    }
    kit.store.release(&served.lease).await?;
    let next = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert_eq!(next.position, served.position);
    // A store may mark the end of a term in the journal, by repeating the position.
    assert!(next.evidence.entry >= served.evidence.entry);
    Ok(())
}

async fn epoch_from_the_future_is_a_rewind(kit: Kit) -> Result<(), StoreError> {
    let served = serve(&kit).await?;
    let later = Lease { epoch: served.lease.epoch + 1, ..served.lease.clone() };
    let request = Fetch {
        epoch: Some(later.epoch),
        ..served.fetch(served.evidence.clone(), &served.position)
    };
    assert_kind(kit.store.fetch(&request).await, StoreErrorKind::Rewound, "fetch");
    assert_kind(kit.store.renew(&later, super::kit::TTL).await, StoreErrorKind::Rewound, "renew");
    let settlement =
        Settlement { evidence: Some(served.evidence.clone()), ..Settlement::default() };
    assert_kind(kit.store.settle(&later, &settlement).await, StoreErrorKind::Rewound, "settle");
    Ok(())
}

/// What somebody wrote who did not ask: the next holder starts from what the log has reached.
async fn position_ahead_of_the_log_is_not_granted(kit: Kit) -> Result<(), StoreError> {
    let served = serve(&kit).await?;
    let snapshot = served.position.steps()[0].snapshot.clone();
    kit.settle_at(&served.lease, &Position::at(served.position.seq() + 100, snapshot)).await?;
    kit.store.release(&served.lease).await?;
    let next = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert_eq!(next.position, served.position);
    kit.commit(&keyless_many(3)).await?;
    let rest = kit.read_from(ROUTE, Shard::WHOLE, &next.position).await?;
    assert_eq!(rest.len(), 3, "none is skipped");
    Ok(())
}

fn rewound_claim(served: &Served) -> Claim {
    let rewound = Some(Rewound { epoch: served.lease.epoch + 10, log: served.log });
    Claim { rewound, relay: served.lease.relay, ..claim(ROUTE, Shard::WHOLE) }
}

async fn rewound_claim_renames_the_log_once(kit: Kit) -> Result<(), StoreError> {
    let served = serve(&kit).await?;
    let claim = rewound_claim(&served);
    let first = kit.store.acquire(&claim).await?.expect("its own lease is not in its way");
    assert_ne!(first.log, served.log);
    assert!(first.lease.epoch > served.lease.epoch + 10, "above every epoch it knows of");
    assert_eq!(first.position, served.position);
    let second = kit.store.acquire(&claim).await?.expect("its own lease is not in its way");
    assert_eq!(second.log, first.log, "it has another name already");
    let status = kit.store.status().await?;
    assert!(status.rewinds.iter().all(|rewind| rewind.route == ROUTE));
    assert_eq!(status.rewinds.len(), 2);
    assert_eq!(status.rewinds[0].relay, served.lease.relay.to_string());
    Ok(())
}

async fn rewound_claim_ends_every_lease_of_the_route(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["*"], 2).await?;
    kit.register("other", &["*"], 1).await?;
    let shard = |index| Shard { index, of: 2 };
    let one = kit.granted(ROUTE, shard(0)).await?;
    let two = kit.granted(ROUTE, shard(1)).await?;
    let other = kit.granted("other", Shard::WHOLE).await?;
    assert_eq!(one.log, two.log);
    let rewound = Some(Rewound { epoch: one.lease.epoch, log: one.log });
    let claim = Claim { rewound, relay: one.lease.relay, ..claim(ROUTE, shard(0)) };
    let again = kit.store.acquire(&claim).await?.expect("free");
    let renewed = kit.store.renew(&two.lease, super::kit::TTL).await;
    assert_kind(renewed, StoreErrorKind::Fenced, "the other shard's holder sends by the old name");
    assert_eq!(kit.granted(ROUTE, shard(1)).await?.log, again.log);
    kit.store.renew(&other.lease, super::kit::TTL).await?;
    Ok(())
}

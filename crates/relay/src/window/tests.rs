//! Floors and weights of a window, by hand.

use std::time::SystemTime;

use posthaste_core::{Fetched, Message, Shard};
use uuid::Uuid;

use super::*;

/// A window of one batch, seqs 1 to 3 of a key each.
fn window() -> Window {
    let floors = Floors::new(Uuid::nil(), Shard::WHOLE, &[]);
    let mut window = Window::new(Position::default(), Vec::new(), Lanes::default(), floors);
    let fetched = |seq: Seq| Fetched {
        seq,
        message: Message::from_bytes("t", Some(&seq.to_string()), ""),
        enqueued_at: SystemTime::UNIX_EPOCH,
        age: Duration::ZERO,
    };
    let messages = (1..=3).map(fetched).collect();
    let batch =
        Batch { messages, end: 3, snapshot: Snapshot::default(), more: false, witness: None };
    window.add_batch(batch, Duration::ZERO);
    window
}

/// However many are put aside while a settlement is under way: what is read stops at a bound.
#[test]
fn what_is_put_aside_counts_until_it_is_written() {
    let mut window = window();
    let read = window.bytes();
    let refused = |window: &mut Window, id| {
        window.refused(id, Failure::new("refused", "no"), Next::Dead, Duration::ZERO);
    };
    (0..2).for_each(|id| refused(&mut window, id));
    let (first, messages) = window.settlement(true).expect("two are to be written");
    refused(&mut window, 2);
    window.advance();
    assert_eq!(window.bytes(), read, "all three are in memory");
    window.confirmed(&first, messages);
    assert_eq!(window.bytes(), read / 3);
    let (second, messages) = window.settlement(true).expect("one is to be written");
    window.confirmed(&second, messages);
    assert_eq!(window.bytes(), 0);
}

/// Writes down what there is, and gives the floor of a message that enters then.
fn floor_after_settling(window: &mut Window) -> (Seq, Vec<Seq>) {
    if let Some((settlement, messages)) = window.settlement(true) {
        window.confirmed(&settlement, messages);
        let position = settlement.position.expect("a window always says where it is");
        window.floors.settled(position.seq(), Horizon::default());
        settlement.delivered.iter().for_each(|&seq| window.floors.delivered(seq));
    }
    window.raise_floor(|_, _| true);
    (window.floors.current().seq, window.floors.current().missing.clone())
}

/// Before the store has said so: a floor that waited for its word could pass it first.
#[test]
fn what_is_put_aside_is_missing_at_once_and_what_is_unanswered_is_not_passed() {
    let mut window = window();
    let failure = || Failure::new("refused", "not this one");
    window.refused(0, failure(), Next::Dead, Duration::ZERO);
    window.acknowledged(1);
    window.not_sent(2, Some(&failure()));
    assert_eq!(floor_after_settling(&mut window), (2, vec![1]));
    window.acknowledged(2);
    assert_eq!(floor_after_settling(&mut window), (3, vec![1]));
}

#[test]
fn a_parked_message_is_missing_until_its_delivery_is_written_down() {
    let mut window = window();
    let failure = Failure::new("refused", "not this one");
    window.refused(0, failure, Next::Retry(Duration::ZERO), Duration::ZERO);
    window.acknowledged(1);
    window.acknowledged(2);
    assert_eq!(floor_after_settling(&mut window), (3, vec![1]));
    let parked = Parked {
        seq: 1,
        message: Message::from_bytes("t", Some("1"), ""),
        attempts: 1,
        unknowns: 0,
        redriven: 0,
        enqueued_at: SystemTime::UNIX_EPOCH,
        age: Duration::ZERO,
    };
    window.add_due(vec![parked], Duration::ZERO);
    window.acknowledged(PARKED_FIRST);
    window.raise_floor(|_, _| true);
    assert_eq!(window.floors.current().missing, [1], "a crash would send it again");
    assert_eq!(floor_after_settling(&mut window), (3, vec![]));
}

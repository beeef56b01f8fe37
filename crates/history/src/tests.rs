//! Each record, and what it leads to.

use posthaste_core::{Message, MessageId};

use crate::{Breach, Cause, Effect, History};

fn message(key: Option<&str>) -> Message {
    Message::from_bytes("t", key, "")
}

/// Three messages of one key, committed in order.
fn three() -> (History, [MessageId; 3]) {
    let messages = [message(Some("k")), message(Some("k")), message(Some("k"))];
    let mut history = History::default();
    history.committed(&messages);
    (history, messages.map(|message| message.id))
}

fn arrive(history: &mut History, ids: impl IntoIterator<Item = MessageId>) {
    for id in ids {
        history.received(id);
    }
}

#[test]
fn all_in_order_is_exact() {
    let (mut history, ids) = three();
    arrive(&mut history, ids);
    let report = history.check();
    assert!(report.is_exact(), "{report}");
    assert_eq!((report.committed, report.received), (3, 3));
}

#[test]
fn what_never_came_is_lost_unless_set_aside() {
    let (mut history, [a, b, c]) = three();
    history.received(b);
    assert_eq!(history.check().lost, [a, c]);
    history.set_aside(c);
    assert_eq!(history.check().lost, [a]);
}

#[test]
fn rolled_back_and_unsent_messages_are_phantoms() {
    let (mut history, ids) = three();
    arrive(&mut history, ids);
    let undone = message(None);
    history.rolled_back([&undone]);
    assert!(history.check().is_exact(), "nobody expects it");
    let unsent = MessageId::fresh();
    history.received(undone.id);
    history.received(unsent);
    assert_eq!(history.check().phantom, [undone.id, unsent]);
    assert!(!history.check().is_sound());
}

#[test]
fn repetitions_are_duplicates_and_do_not_count_for_order() {
    let (mut history, [a, b, c]) = three();
    arrive(&mut history, [a, b, a, c, a]);
    let report = history.check();
    assert_eq!(report.duplicated, [a, a]);
    assert!(report.is_sound() && !report.is_exact(), "{report}");
}

#[test]
fn first_arrivals_out_of_order_are_reported_once_each() {
    let (mut history, [a, b, c]) = three();
    arrive(&mut history, [c, a, b]);
    let report = history.check();
    let pairs: Vec<_> = report.reordered.iter().map(|pair| (pair.earlier, pair.later)).collect();
    assert_eq!(pairs, [(a, c), (b, c)]);
    assert!(report.to_string().contains("of key k"), "{report}");
}

#[test]
fn keys_and_keyless_messages_are_independent() {
    let messages = [message(Some("a")), message(Some("b")), message(None), message(None)];
    let mut history = History::default();
    history.committed(&messages);
    for message in messages.iter().rev() {
        history.received(message.id);
    }
    assert!(history.check().is_exact());
}

#[test]
fn unknown_commits_may_arrive_or_not() {
    let (come, stay) = (message(None), message(None));
    let mut history = History::default();
    history.unknown([&come, &stay]);
    history.received(come.id);
    assert!(history.check().is_exact());
}

#[test]
fn a_dead_letter_that_is_sent_again_need_not_keep_the_order() {
    let (mut history, [a, b, c]) = three();
    history.set_aside(a);
    arrive(&mut history, [b, c, a]);
    assert!(history.check().is_exact(), "{}", history.check());
}

#[test]
fn each_cause_explains_one_repetition() {
    let (mut history, [a, b, c]) = three();
    arrive(&mut history, [a, b, c]);
    history.may_repeat(b, Cause::Crash);
    arrive(&mut history, [b]);
    let report = history.check();
    assert_eq!(report.causes[&Cause::Crash], 1);
    assert!(report.unexplained.is_empty());
    arrive(&mut history, [b]);
    assert_eq!(history.check().unexplained, [b]);
    assert_eq!(history.check().breaches(), [], "this recorder did not promise to explain");
    let mut explaining = History::explaining();
    let message = message(None);
    explaining.committed([&message]);
    arrive(&mut explaining, [message.id, message.id]);
    assert_eq!(explaining.check().breaches(), [Breach::Unexplained]);
}

#[test]
fn a_cause_told_before_the_first_arrival_waits_for_the_second() {
    let (mut history, [a, ..]) = three();
    history.may_repeat(a, Cause::UnknownOutcome);
    arrive(&mut history, [a, a]);
    assert_eq!(history.check().causes[&Cause::UnknownOutcome], 1);
}

#[test]
fn what_began_before_the_discard_may_land_and_what_began_later_may_not() {
    let (mut history, [a, b, c]) = three();
    arrive(&mut history, [b, c]);
    history.started(a);
    history.discarded(a);
    history.received(a);
    assert_eq!(history.check().breaches(), []);
    history.started(a);
    assert_eq!(history.check().after_discard, [a]);
    let (mut history, [a, b, c]) = three();
    history.discarded(a);
    arrive(&mut history, [b, c, a]);
    assert_eq!(history.check().breaches(), [Breach::AfterDiscard], "an arrival alone counts too");
}

#[test]
fn a_dead_letter_claims_no_more_refusals_than_there_were() {
    let (mut history, [a, b, c]) = three();
    arrive(&mut history, [b, c]);
    history.refused(a);
    history.refused(a);
    history.dead(a, 2);
    assert_eq!(history.check().breaches(), []);
    history.dead(a, 3);
    assert_eq!(history.check().overcounted, [a]);
    assert_eq!(history.check().breaches(), [Breach::Overcounted]);
}

#[test]
fn effects_happen_exactly_once_at_each_consumer() {
    let (mut history, [a, b, c]) = three();
    history.consumer("billing");
    arrive(&mut history, [a, b, c, b]);
    for id in [a, b] {
        history.acted("billing", id);
    }
    assert_eq!(history.check().breaches(), [Breach::EffectMissing]);
    history.consumer_set_aside("billing", c);
    assert_eq!(history.check().breaches(), []);
    history.acted("billing", b);
    history.acted("stock", a);
    history.acted("stock", b);
    let report = history.check();
    let effect = |consumer: &str, id| Effect { consumer: consumer.to_owned(), id };
    assert_eq!(report.effects_repeated, [effect("billing", b)]);
    assert_eq!(report.effects_missing, [effect("stock", c)]);
    assert_eq!(report.breaches(), [Breach::EffectMissing, Breach::EffectRepeated]);
    let unsent = MessageId::fresh();
    history.acted("stock", unsent);
    assert_eq!(history.check().effects_unasked, [effect("stock", unsent)]);
}

/// An attempt that was under way when a person gave the message up may land, and take effect or not.
#[test]
fn what_was_discarded_need_not_take_effect() {
    let (mut history, [a, b, c]) = three();
    history.consumer("billing");
    history.started(a);
    history.discarded(a);
    arrive(&mut history, [a, b, c]);
    history.acted("billing", b);
    history.acted("billing", c);
    assert_eq!(history.check().breaches(), []);
}

#[test]
fn complete_means_that_everything_is_accounted_for() {
    let (mut history, [a, b, c]) = three();
    arrive(&mut history, [a, b]);
    assert!(!history.is_complete());
    history.set_aside(c);
    assert!(history.is_complete());
}

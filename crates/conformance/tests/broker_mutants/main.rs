//! The broker suite is tested: brokers that are broken in one way each, and the cases that must
//! notice.
//!
//! A mutant is a loopback broker with a [`Flaw`]. For each, the cases named beside it must fail; the
//! unbroken one passes them all, whatever order it promises and however it spells attributes.
//!
//! Nothing here is outside this process, so time is tokio's and passes at once when all wait.

#[path = "../broker_loopback/loopback/mod.rs"]
mod loopback;

use std::{collections::BTreeMap, panic};

use futures::{StreamExt, stream};
use posthaste_conformance::broker::{Case, Fixture, Verdict, cases};
use posthaste_core::CallOrder;
use posthaste_wire::Style;

use crate::loopback::{Flaw, Loopback};

/// Which flaw is caught by which cases, at least.
const CAUGHT: &[(Flaw, &[&str])] = &[
    (
        Flaw::DropsAHeader,
        &["message::every_part_arrives", "profile::raw_carries_payload_content_type_and_headers"],
    ),
    (Flaw::PayloadIsText, &["message::payloads_arrive_byte_by_byte"]),
    (Flaw::EmptyKeyForNone, &["message::missing_parts_stay_missing"]),
    (Flaw::TimeToTheSecond, &["message::every_part_arrives"]),
    (Flaw::TrimsHeaders, &["header::odd_ones_arrive_unchanged_or_are_refused_as_declared"]),
    (Flaw::IgnoresTheTemplate, &["destination::other_programs_find_messages_under_the_full_name"]),
    (Flaw::LineBreakEndsAHeader, &["header::line_breaks_never_become_headers"]),
    (
        Flaw::NewIdOnResend,
        &[
            "call::message_sent_again_is_acknowledged_and_the_same",
            "restart::kill_in_mid_run_loses_nothing",
        ],
    ),
    (
        Flaw::ChecksNothing,
        &[
            "header::illegal_topics_are_refused_by_name",
            "call::bad_message_among_good_ones_fails_alone",
            "size::limit_is_exact_and_too_large_harms_nobody",
        ],
    ),
    (Flaw::StoresTwice, &["order::keys_keep_theirs_under_load", "order::hot_key_keeps_its_own"]),
    (Flaw::AcksUnstored, &["call::calls_of_every_size_are_answered"]),
    (
        Flaw::SwapsOutcomes,
        &[
            "call::bad_message_among_good_ones_fails_alone",
            "call::bad_messages_everywhere_fail_alone",
        ],
    ),
    (Flaw::ForgetsAnOutcome, &["call::calls_of_every_size_are_answered"]),
    (Flaw::FailsTogether, &["call::bad_message_among_good_ones_fails_alone"]),
    (Flaw::TooLargeIsUnknown, &["size::limit_is_exact_and_too_large_harms_nobody"]),
    (
        Flaw::NothingIsHopeless,
        &[
            "header::illegal_topics_are_refused_by_name",
            "size::limit_is_exact_and_too_large_harms_nobody",
            "destination::message_that_lacks_a_part_of_it_fails_alone",
        ],
    ),
    (Flaw::ShowsPayloads, &["call::bad_message_among_good_ones_fails_alone"]),
    (Flaw::TimeoutIsSuccess, &["fault::frozen_server_is_never_taken_for_an_answer"]),
    (Flaw::StoppedIsRejected, &["fault::stopped_server_is_unreachable_until_it_is_back"]),
    (Flaw::StoppedIsUnknown, &["fault::opening_beside_a_stopped_server_works"]),
    (
        Flaw::AnyOrderInACall,
        &["call::full_call_of_one_key_arrives_in_order", "order::keys_keep_theirs_under_load"],
    ),
    (Flaw::GoesOnAfterAFailure, &["call::bad_message_holds_back_what_follows_it"]),
    (Flaw::IgnoresTheDeadline, &["fault::frozen_server_is_never_taken_for_an_answer"]),
    (Flaw::CallsQueue, &["fault::overlapping_calls_each_keep_their_deadline"]),
    (Flaw::NeverRedials, &["fault::stopped_server_is_unreachable_until_it_is_back"]),
    (Flaw::OpenDials, &["fault::opening_beside_a_stopped_server_works"]),
    (
        Flaw::AcksWhatItBuffers,
        &[
            "close::acknowledged_is_there_afterwards",
            "close::adapter_that_is_only_dropped_leaves_nothing_undone",
        ],
    ),
    (Flaw::PanicsAfterClose, &["close::publishing_afterwards_is_answered"]),
    (Flaw::CloseWaitsForTheServer, &["fault::closing_beside_a_frozen_server_returns"]),
    (Flaw::ExaminesNothing, &["examine::stopped_server_is_one_plain_line"]),
    (Flaw::ShowsThePassword, &["examine::stopped_server_is_one_plain_line"]),
    (Flaw::TakesThenWaits, &["subscriber::dropped_receives_lose_nothing"]),
    (Flaw::ForgetsAcknowledgements, &["subscriber::acknowledged_does_not_come_again"]),
    (Flaw::AcknowledgesTooMuch, &["subscriber::acknowledged_out_of_order_loses_nothing"]),
    (Flaw::NeverRedelivers, &["subscriber::unacknowledged_comes_again"]),
    (Flaw::NamesAreNotShared, &["subscriber::subscribers_of_a_name_share"]),
    (Flaw::ListenersShare, &["subscriber::listeners_each_get_a_copy"]),
    (Flaw::NamesAreForgotten, &["subscriber::name_collects_while_nobody_is_there"]),
    (Flaw::IgnoresPatterns, &["subscriber::patterns_filter"]),
    (Flaw::BeginningIsNew, &["subscriber::beginning_brings_what_was_there"]),
    (Flaw::NewIsBeginning, &["subscriber::listener_starts_with_what_is_new"]),
    (Flaw::DerivedIdsChange, &["profile::raw_has_the_same_id_when_it_comes_again"]),
    (Flaw::SubscriberStaysBroken, &["restart::stop_in_mid_run_loses_nothing"]),
    (Flaw::KillLoses, &["restart::kill_in_mid_run_loses_nothing"]),
    (Flaw::StopLoses, &["restart::stop_in_mid_run_loses_nothing"]),
];

/// Checks one case in a bed of its own.
async fn check(case: Case, fixture: Loopback) -> Verdict {
    let bed = if case.does_harm() { fixture.private().await } else { fixture.shared().await };
    case.check(bed).await
}

#[tokio::test(start_paused = true)]
async fn every_mutant_is_caught_by_name() {
    silence_panics();
    let by_name: BTreeMap<&str, Case> = cases().into_iter().map(|case| (case.name, case)).collect();
    let pairs = CAUGHT.iter().flat_map(|(flaw, names)| names.iter().map(|name| (*flaw, *name)));
    let checks = pairs.map(|(flaw, name)| {
        let case = *by_name.get(name).unwrap_or_else(|| panic!("no case is named {name}"));
        async move {
            let like = Loopback { order: CallOrder::PerKey, style: Style::Underscore, flaw };
            let verdict = check(case, like).await;
            match verdict {
                Verdict::Broken(why) => {
                    println!("{flaw:?} caught by {name}: {why}");
                    None
                }
                other => Some(format!("{flaw:?} by {name}: {other:?}")),
            }
        }
    });
    let verdicts: Vec<_> = stream::iter(checks).buffer_unordered(64).collect().await;
    let escaped: Vec<String> = verdicts.into_iter().flatten().collect();
    assert!(escaped.is_empty(), "not caught:\n{}", escaped.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn unbroken_ones_pass_whatever_order_and_spelling() {
    for (order, style) in [
        (CallOrder::OnePerKey, Style::Dash),
        (CallOrder::PerKey, Style::Underscore),
        (CallOrder::PerKey, Style::Plain),
        (CallOrder::Total, Style::Amqp),
    ] {
        for case in cases() {
            match check(case, Loopback { order, style, flaw: Flaw::None }).await {
                Verdict::Holds => {}
                Verdict::Skipped(reason) => println!("{order:?}: {} skipped: {reason}", case.name),
                Verdict::Broken(why) => panic!("{order:?}, {style:?}: {}: {why}", case.name),
            }
        }
    }
}

#[test]
fn cases_have_names_of_their_own() {
    let mut names: Vec<&str> = cases().iter().map(|case| case.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// Cases fail by panicking, here on purpose: what they say is in their verdict.
fn silence_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let is_ours = panic.location().is_some_and(|at| {
            ["conformance/src", "loopback"].iter().any(|part| at.file().contains(part))
        });
        if !is_ours {
            usual(panic);
        }
    }));
}

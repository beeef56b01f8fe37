//! The suite is tested: stores that are broken in one way each, and the cases that must notice.
//!
//! A mutant is a memory store behind a [`Flaw`]. For each, the cases named beside it must fail; that
//! the unbroken store passes them all is the memory store's own test.

mod mutant;

use std::{collections::BTreeMap, panic, sync::Arc};

use async_trait::async_trait;
use posthaste_conformance::store::{Case, MemoryFixture, StoreFixture, TestBed, Verdict, cases};

use crate::mutant::{Flaw, Mutant};

/// Which flaw is caught by which cases, at least.
const CAUGHT: &[(Flaw, &[&str])] = &[
    (
        Flaw::CursorBySeq,
        &[
            "fetch::late_commit_comes_first",
            "fetch::late_commit_is_settled_progress_too",
            "fetch::late_transaction_of_many_rows_is_paged",
            "fetch::hostile_writers_lose_nothing",
        ],
    ),
    (
        Flaw::OrderByTransaction,
        &["fetch::transaction_ids_do_not_decide_order", "fetch::hostile_writers_lose_nothing"],
    ),
    (
        Flaw::WaitsForOpenWriters,
        &["fetch::open_writer_holds_nobody_back", "fetch::rolled_back_gap_holds_nobody_back"],
    ),
    (
        Flaw::PageDropsItsLastRow,
        &["fetch::rows_bound_a_batch", "fetch::late_transaction_of_many_rows_is_paged"],
    ),
    (Flaw::BatchEndsEarly, &["fetch::what_was_passed_does_not_come_again"]),
    (Flaw::PatternsLikeSql, &["fetch::topic_patterns_are_taken_literally"]),
    (
        Flaw::RegisterLeavesMessagesBehind,
        &["register::widened_topics_bring_messages_that_waited_for_a_route"],
    ),
    (Flaw::ShardsByLength, &["fetch::shards_split_everything_exactly_once"]),
    (Flaw::PayloadEndsAtNul, &["append::any_bytes_come_back"]),
    (
        Flaw::BarrierIgnored,
        &["fetch::until_leaves_out_what_it_does_not_cover", "resize::shards_stop_at_one_position"],
    ),
    (Flaw::BarrierClaimsWhatItLeftOut, &["fetch::until_leaves_out_late_commits"]),
    (
        Flaw::ReshardTooEarly,
        &[
            "resize::every_shard_must_arrive_first",
            "resize::resizes_under_hostile_writers_lose_nothing",
        ],
    ),
    (
        Flaw::GrantedWhileHeld,
        &["lease::held_shard_is_nobody_elses", "lease::ten_claims_at_once_get_one_grant"],
    ),
    (
        Flaw::ReleaseByAnyTerm,
        &[
            "lease::delayed_release_leaves_the_new_term_alone",
            "lease::old_term_of_the_same_relay_is_fenced",
        ],
    ),
    (Flaw::SettleUnfenced, &["settle::stale_epoch_is_fenced_and_writes_nothing"]),
    (Flaw::FetchUnfenced, &["fetch::only_the_latest_holder_reads_as_one"]),
    (Flaw::PastAtOnce, &["floor::nothing_appears_below_what_is_past"]),
    (Flaw::GrantForgetsDeadLetters, &["floor::grant_and_due_tell_the_lowest_that_may_still_come"]),
    (Flaw::LogOutlivesTopics, &["floor::other_topics_are_another_log"]),
    (
        Flaw::SettleInTwoSteps,
        &[
            "settle::failed_settlement_writes_nothing",
            "purge::what_was_discarded_and_removed_does_not_come_back",
        ],
    ),
    (Flaw::FollowerOvertakes, &["parked::followers_wait_behind_the_head_in_order"]),
    (Flaw::DeadLetterNeverBlocks, &["parked::blocking_dead_letter_holds_its_key"]),
    (Flaw::LateReportRevives, &["dead::late_report_changes_nothing"]),
    (Flaw::RedriveMakesANewId, &["dead::redrive_keeps_the_id_and_starts_over"]),
    (Flaw::DiscardedIsStillDue, &["dead::nothing_is_tried_after_discard"]),
    (
        Flaw::PurgeByAge,
        &[
            "purge::undelivered_messages_stay_however_old",
            "purge::messages_one_route_has_not_passed_stay",
        ],
    ),
    (Flaw::PurgeIgnoresLateRows, &["purge::late_commit_below_a_position_stays"]),
    (Flaw::PurgeByOldRoutes, &["purge::route_registered_meanwhile_finds_what_waited_for_it"]),
    (Flaw::SilentRelaysCount, &["beat::relay_that_is_silent_no_longer_counts"]),
    (
        Flaw::StatusForgetsRetrying,
        &["status::oldest_retrying_age_counts_from_parking_or_redriving"],
    ),
    (
        Flaw::StatusForgetsPauses,
        &["status::paused_routes_are_told_while_the_relay_that_paused_them_is_there"],
    ),
    (
        Flaw::DiscardLeavesRetrying,
        &[
            "dead::retrying_messages_are_given_up_and_their_key_goes_on",
            "dead::holders_are_fenced_where_retrying_messages_are_given_up",
        ],
    ),
    (Flaw::StatusForgetsDeadLetters, &["status::parked_messages_are_counted_by_state"]),
];

/// Beds whose store has a flaw.
struct Flawed(Flaw);

#[async_trait]
impl StoreFixture for Flawed {
    async fn fresh(&self) -> Arc<dyn TestBed> {
        Arc::new(Mutant::new(self.0, MemoryFixture.fresh().await))
    }
}

#[tokio::test]
async fn every_mutant_is_caught_by_name() {
    silence_panics();
    let by_name: BTreeMap<&str, Case> = cases().into_iter().map(|case| (case.name, case)).collect();
    let mut escaped = Vec::new();
    for (flaw, names) in CAUGHT {
        for name in *names {
            let case = by_name.get(name).unwrap_or_else(|| panic!("no case is named {name}"));
            match case.check(&Flawed(*flaw)).await {
                Verdict::Broken(why) => println!("{flaw:?} caught by {name}: {why}"),
                other => escaped.push(format!("{flaw:?} by {name}: {other:?}")),
            }
        }
    }
    assert!(escaped.is_empty(), "not caught:\n{}", escaped.join("\n"));
}

#[tokio::test]
async fn wrapping_alone_breaks_nothing() {
    for case in cases() {
        let verdict = case.check(&Flawed(Flaw::None)).await;
        assert_eq!(verdict, Verdict::Holds, "{}", case.name);
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
        let is_ours = panic.location().is_some_and(|at| at.file().contains("conformance/src"));
        if !is_ours {
            usual(panic);
        }
    }));
}

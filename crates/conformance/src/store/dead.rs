//! Dead letters: what people see of them, and sending them again or giving them up.

use std::time::Duration;

use posthaste_core::{
    Failure, Lease, Message, MessageId, Next, Park, ParkState, ParkedFilter, ParkedView, Repark,
    Seq, Settlement, Shard, StoreError, StoreErrorKind,
};

use super::{
    case::cases,
    kit::{Kit, ROUTE, TTL, assert_kind, keyed, park, refused, waiting},
};

cases! { "dead";
    Nothing: [
        view_tells_what_happened,
        only_dead_letters_are_listed,
        newest_come_last_and_no_more_than_asked,
        filters_narrow_and_combine,
        redrive_keeps_the_id_and_starts_over,
        redriven_letter_goes_before_later_ones_of_its_key,
        redrive_blocks_the_key_again,
        redrive_keeps_the_order_of_a_key,
        redrive_takes_dead_letters_only,
        redrive_that_fails_again_is_a_dead_letter_again,
        late_report_changes_nothing,
        discard_keeps_who_and_why,
        discard_takes_dead_letters_only,
        nothing_is_tried_after_discard,
        retrying_messages_are_listed_where_they_are_asked_for,
        retrying_messages_are_given_up_and_their_key_goes_on,
        holders_are_fenced_where_retrying_messages_are_given_up,
    ],
}

const NOW: Next = Next::Retry(Duration::ZERO);
const IN_AN_HOUR: Next = Next::Retry(Duration::from_secs(3600));

async fn settle(kit: &Kit, lease: &Lease, park: Vec<Park>) -> Result<(), StoreError> {
    let settlement = Settlement { park, ..Settlement::default() };
    kit.store.settle(lease, &settlement).await.map(drop)
}

async fn repark(kit: &Kit, lease: &Lease, report: Repark) -> Result<(), StoreError> {
    let settlement = Settlement { repark: vec![report], ..Settlement::default() };
    kit.store.settle(lease, &settlement).await.map(drop)
}

async fn due(kit: &Kit, lease: &Lease) -> Result<Vec<Seq>, StoreError> {
    let due = kit.store.due(lease, 100, usize::MAX).await?.messages;
    Ok(due.into_iter().map(|parked| parked.seq).collect())
}

async fn dead(kit: &Kit, filter: &ParkedFilter) -> Result<Vec<Seq>, StoreError> {
    let dead = kit.store.dead(filter, 100).await?;
    Ok(dead.into_iter().map(|view| view.seq).collect())
}

fn any() -> ParkedFilter {
    ParkedFilter::default()
}

fn of_ids(ids: &[MessageId]) -> ParkedFilter {
    ParkedFilter { ids: ids.to_vec(), ..ParkedFilter::default() }
}

/// A letter that is dead from the start.
fn letter(seq: Seq, message: &Message) -> Park {
    park(seq, message, refused(5, Next::Dead))
}

async fn view_tells_what_happened(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let message = keyed("k", 1).event_type("Placed").header("a", "b");
    settle(&kit, &lease, vec![letter(7, &message)]).await?;
    let views = kit.store.dead(&any(), 100).await?;
    let [view] = views.as_slice() else { panic!("{} dead letters", views.len()) };
    assert_eq!((view.route.as_str(), view.seq), (ROUTE, 7));
    assert_eq!(view.message, message);
    assert_eq!(view.state, ParkState::Dead);
    assert_eq!((view.attempts, view.unknowns, view.redriven), (5, 0, 0));
    let error = Some(("refused".to_owned(), "refusal 5 of 7".to_owned()));
    assert_eq!((&view.first_error, &view.last_error), (&error, &error));
    assert_eq!(view.next_attempt_in, None);
    assert_eq!(view.acted, None);
    for time in [&view.created_at, &view.parked_at, &view.state_at] {
        assert!(is_rfc3339_utc(time), "`{time}` is not RFC 3339 in UTC");
    }
    Ok(())
}

/// `2026-01-31T23:59:59Z`, with or without a fraction.
fn is_rfc3339_utc(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let Some(rest) = shape.strip_prefix("0000-00-00T00:00:00") else {
        return false;
    };
    let fraction = rest.strip_suffix('Z').or(rest.strip_suffix("+00:00"));
    fraction.is_some_and(|f| f.is_empty() || f.strip_prefix('.').is_some_and(is_digits))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

async fn only_dead_letters_are_listed(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let discarded = keyed("d", 4);
    let parks = vec![
        park(1, &keyed("a", 1), refused(1, NOW)),
        park(2, &keyed("a", 2), waiting),
        letter(3, &keyed("c", 3)),
        letter(4, &discarded),
    ];
    settle(&kit, &lease, parks).await?;
    kit.store.discard(&of_ids(&[discarded.id]), "ada", "test").await?;
    assert_eq!(dead(&kit, &any()).await?, [3]);
    let named = dead(&kit, &of_ids(&[discarded.id])).await?;
    assert_eq!(named, [4], "a discarded one is shown to who names it");
    Ok(())
}

async fn newest_come_last_and_no_more_than_asked(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    for seq in 1..=5 {
        settle(&kit, &lease, vec![letter(seq, &keyed("k", 0))]).await?;
        kit.bed.advance(Duration::from_secs(1)).await;
    }
    assert_eq!(dead(&kit, &any()).await?, [1, 2, 3, 4, 5]);
    let few = kit.store.dead(&any(), 2).await?;
    assert_eq!(few.len(), 2);
    assert!(few[0].seq < few[1].seq);
    Ok(())
}

/// One letter per combination of route, topic and class; then every filter against its meaning.
async fn filters_narrow_and_combine(kit: Kit) -> Result<(), StoreError> {
    let mut all: Vec<(&str, Message, &'static str)> = Vec::new();
    for route in ["one", "two"] {
        kit.register(route, &["*"], 1).await?;
        let lease = kit.granted(route, Shard::WHOLE).await?.lease;
        let mut seq = 0;
        for topic in ["orders", "it's_%"] {
            for class in ["unroutable", "too-large"] {
                seq += 1;
                let message = Message::from_bytes(topic, None, "");
                let report = Repark {
                    failure: Some(Failure::new(class, "")),
                    ..refused(5, Next::Dead)(seq)
                };
                settle(&kit, &lease, vec![park(seq, &message, |_| report)]).await?;
                all.push((route, message, class));
            }
        }
    }
    let some_ids = vec![all[0].1.id, all[3].1.id, all[6].1.id];
    for route in [None, Some("one"), Some("three")] {
        for topic in [None, Some("it's_%"), Some("it's_x"), Some("order")] {
            for class in [None, Some("too-large"), Some("too%")] {
                for ids in [vec![], some_ids.clone(), vec![MessageId::fresh()]] {
                    let filter = ParkedFilter {
                        route: route.map(str::to_owned),
                        ids,
                        topic: topic.map(str::to_owned),
                        class: class.map(str::to_owned),
                        is_retrying: false,
                    };
                    let expected = all.iter().filter(|(of_route, message, of_class)| {
                        route.is_none_or(|route| route == *of_route)
                            && topic.is_none_or(|topic| topic == message.topic)
                            && class.is_none_or(|class| class == *of_class)
                            && (filter.ids.is_empty() || filter.ids.contains(&message.id))
                    });
                    let mut expected: Vec<_> = expected.map(|(_, m, _)| m.id).collect();
                    let found = kit.store.dead(&filter, 100).await?;
                    let mut found: Vec<_> = found.iter().map(|view| view.message.id).collect();
                    expected.sort_unstable();
                    found.sort_unstable();
                    assert_eq!(found, expected, "{filter:?}");
                }
            }
        }
    }
    let narrow = ParkedFilter {
        route: Some("two".to_owned()),
        class: Some("too-large".to_owned()),
        ..any()
    };
    assert_eq!(kit.store.redrive(&narrow, "ada").await?, 2);
    assert_eq!(dead(&kit, &any()).await?.len(), 6);
    let narrow = ParkedFilter { topic: Some("it's_%".to_owned()), ..any() };
    assert_eq!(kit.store.discard(&narrow, "ada", "it's over").await?, 3);
    assert_eq!(dead(&kit, &any()).await?.len(), 3);
    Ok(())
}

async fn redrive_keeps_the_id_and_starts_over(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let message = keyed("k", 1);
    settle(&kit, &lease, vec![letter(1, &message)]).await?;
    for round in 1..=2 {
        assert_eq!(kit.store.redrive(&of_ids(&[message.id]), "ada").await?, 1);
        assert!(dead(&kit, &any()).await?.is_empty(), "no dead letter now");
        let parked = kit.store.due(&lease, 100, usize::MAX).await?.messages;
        let [parked] = parked.as_slice() else { panic!("{} due in round {round}", parked.len()) };
        assert_eq!(parked.message, message, "the same message, the same id");
        assert_eq!((parked.seq, parked.attempts), (1, 0));
        assert_eq!(parked.redriven, round);
        repark(&kit, &lease, refused(5, Next::Dead)(1)).await?;
    }
    Ok(())
}

async fn redriven_letter_goes_before_later_ones_of_its_key(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let parks = vec![
        letter(1, &keyed("k", 1)),
        park(2, &keyed("k", 2), refused(1, NOW)),
        park(3, &keyed("k", 3), waiting),
    ];
    settle(&kit, &lease, parks).await?;
    assert_eq!(due(&kit, &lease).await?, [2, 3]);
    kit.store.redrive(&any(), "ada").await?;
    assert_eq!(due(&kit, &lease).await?, [1, 2, 3]);
    repark(&kit, &lease, refused(1, IN_AN_HOUR)(1)).await?;
    assert!(due(&kit, &lease).await?.is_empty(), "it holds them back again");
    Ok(())
}

/// Whoever serves the shard next must queue later messages of the key behind it.
async fn redrive_blocks_the_key_again(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    settle(&kit, &lease, vec![letter(1, &keyed("k", 1))]).await?;
    kit.store.redrive(&any(), "ada").await?;
    kit.bed.advance(TTL * 2).await;
    let grant = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert_eq!(grant.blocked, ["k"]);
    assert_eq!(due(&kit, &grant.lease).await?, [1]);
    Ok(())
}

async fn redrive_keeps_the_order_of_a_key(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    for seq in [3, 1, 2, 5, 4] {
        settle(&kit, &lease, vec![letter(seq, &keyed("k", 0))]).await?;
    }
    assert_eq!(kit.store.redrive(&any(), "ada").await?, 5);
    assert_eq!(due(&kit, &lease).await?, [1, 2, 3, 4, 5]);
    Ok(())
}

async fn redrive_takes_dead_letters_only(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let (planned, discarded) = (keyed("planned", 1), keyed("discarded", 2));
    let parks = vec![park(1, &planned, refused(4, IN_AN_HOUR)), letter(2, &discarded)];
    settle(&kit, &lease, parks).await?;
    kit.store.discard(&any(), "ada", "test").await?;
    let both = of_ids(&[planned.id, discarded.id]);
    assert_eq!(kit.store.redrive(&both, "bob").await?, 0);
    assert!(due(&kit, &lease).await?.is_empty());
    kit.bed.advance(Duration::from_secs(7200)).await;
    let parked = kit.store.due(&lease, 100, usize::MAX).await?.messages;
    assert_eq!(parked.len(), 1, "only the planned one");
    assert_eq!((parked[0].attempts, parked[0].redriven), (4, 0));
    Ok(())
}

async fn redrive_that_fails_again_is_a_dead_letter_again(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    settle(&kit, &lease, vec![letter(1, &keyed("k", 1))]).await?;
    kit.store.redrive(&any(), "ada").await?;
    repark(&kit, &lease, refused(2, Next::Dead)(1)).await?;
    let views = kit.store.dead(&any(), 100).await?;
    let [view] = views.as_slice() else { panic!("{} dead letters", views.len()) };
    assert_eq!((view.state, view.attempts), (ParkState::Dead, 2));
    assert_eq!(view.redriven, 1);
    let detail = |error: &Option<(String, String)>| error.clone().map(|(_, detail)| detail);
    assert_eq!(detail(&view.first_error).as_deref(), Some("refusal 5 of 1"));
    assert_eq!(detail(&view.last_error).as_deref(), Some("refusal 2 of 1"));
    Ok(())
}

/// What a relay learned of an attempt before is not news of a dead letter.
async fn late_report_changes_nothing(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    settle(&kit, &lease, vec![letter(1, &keyed("k", 1))]).await?;
    for next in [NOW, Next::Dead, Next::DeadAndBlock] {
        repark(&kit, &lease, refused(2, next)(1)).await?;
        let views = kit.store.dead(&any(), 100).await?;
        let [view] = views.as_slice() else { panic!("{} dead letters", views.len()) };
        assert_eq!((view.state, view.attempts), (ParkState::Dead, 5));
        let detail = view.last_error.as_ref().map(|(_, detail)| detail.as_str());
        assert_eq!(detail, Some("refusal 5 of 1"));
    }
    assert!(due(&kit, &lease).await?.is_empty());
    kit.bed.advance(TTL * 2).await;
    assert!(kit.granted(ROUTE, Shard::WHOLE).await?.blocked.is_empty(), "its key goes on");
    Ok(())
}

async fn discard_keeps_who_and_why(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let message = keyed("k", 1);
    settle(&kit, &lease, vec![letter(1, &message)]).await?;
    let this = of_ids(&[message.id]);
    let (who, why) = ("Zoë O'Hara", "customer cancelled; \"ticket\" 7 -- \u{1f4ef}");
    assert_eq!(kit.store.discard(&this, who, why).await?, 1);
    assert_eq!(kit.store.discard(&this, "bob", "again").await?, 0);
    let view: ParkedView = kit.store.dead(&this, 100).await?.remove(0);
    assert_eq!(view.state, ParkState::Discarded);
    assert_eq!(view.acted, Some((who.to_owned(), why.to_owned())));
    assert_eq!(view.message, message);
    Ok(())
}

async fn discard_takes_dead_letters_only(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let retrying = keyed("k", 1);
    settle(&kit, &lease, vec![park(1, &retrying, refused(1, NOW))]).await?;
    let discarded = kit.store.discard(&of_ids(&[retrying.id]), "ada", "x").await?;
    assert_eq!(discarded, 0);
    assert_eq!(due(&kit, &lease).await?, [1]);
    Ok(())
}

/// Not by waiting, not by a redrive, not by the report of an attempt that was already under way.
async fn nothing_is_tried_after_discard(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let message = keyed("k", 1);
    settle(&kit, &lease, vec![letter(1, &message)]).await?;
    kit.store.discard(&any(), "ada", "test").await?;
    kit.store.redrive(&of_ids(&[message.id]), "bob").await?;
    repark(&kit, &lease, refused(2, NOW)(1)).await?;
    settle(&kit, &lease, vec![park(1, &message, refused(1, NOW))]).await?;
    kit.bed.advance(TTL * 2).await;
    let grant = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert!(due(&kit, &grant.lease).await?.is_empty());
    assert!(grant.blocked.is_empty());
    let view = kit.store.dead(&of_ids(&[message.id]), 100).await?.remove(0);
    assert_eq!(view.state, ParkState::Discarded);
    Ok(())
}

fn retrying() -> ParkedFilter {
    ParkedFilter { is_retrying: true, ..any() }
}

async fn retrying_messages_are_listed_where_they_are_asked_for(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let (first, dead_one) = (keyed("k", 1), keyed("l", 3));
    let parks = vec![
        park(1, &first, refused(2, IN_AN_HOUR)),
        park(2, &keyed("k", 2), waiting),
        letter(3, &dead_one),
    ];
    settle(&kit, &lease, parks).await?;
    assert_eq!(dead(&kit, &any()).await?, [3]);
    let mut found = dead(&kit, &retrying()).await?;
    found.sort_unstable();
    assert_eq!(found, [1, 2]);
    let by_id = ParkedFilter { is_retrying: true, ..of_ids(&[first.id, dead_one.id]) };
    let views = kit.store.dead(&by_id, 100).await?;
    let [view] = views.as_slice() else { panic!("{} messages", views.len()) };
    assert_eq!((view.seq, view.state, view.attempts), (1, ParkState::Retrying, 2));
    assert!(view.next_attempt_in.is_some_and(|next| next > Duration::ZERO));
    let refusals = ParkedFilter { class: Some("refused".to_owned()), ..retrying() };
    assert_eq!(dead(&kit, &refusals).await?, [1], "what only waits has no error");
    assert_eq!(kit.store.redrive(&retrying(), "ada").await?, 0, "it is sent again by itself");
    Ok(())
}

async fn retrying_messages_are_given_up_and_their_key_goes_on(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    kit.register("other", &["*"], 1).await?;
    let other = kit.granted("other", Shard::WHOLE).await?.lease;
    let first = keyed("k", 1);
    let parks = vec![
        park(1, &first, refused(2, IN_AN_HOUR)),
        park(2, &keyed("k", 2), waiting),
        letter(3, &keyed("l", 3)),
    ];
    settle(&kit, &lease, parks).await?;
    settle(&kit, &other, vec![park(1, &keyed("k", 1), refused(1, IN_AN_HOUR))]).await?;
    let this = ParkedFilter { is_retrying: true, ..of_ids(&[first.id]) };
    assert_eq!(kit.store.discard(&this, "ada", "no use").await?, 1);
    let views = kit.store.dead(&of_ids(&[first.id]), 100).await?;
    let [view] = views.as_slice() else { panic!("{} messages", views.len()) };
    assert_eq!(view.state, ParkState::Discarded);
    assert_eq!(view.acted, Some(("ada".to_owned(), "no use".to_owned())));
    assert_eq!(view.next_attempt_in, None);
    assert_eq!(dead(&kit, &any()).await?, [3], "dead letters are left alone");
    let lease = kit.granted(ROUTE, Shard::WHOLE).await?.lease;
    assert_eq!(due(&kit, &lease).await?, [2], "what waited behind it is next");
    let all = ParkedFilter { route: Some(ROUTE.to_owned()), ..retrying() };
    assert_eq!(kit.store.discard(&all, "ada", "no use").await?, 1);
    let left = kit.store.dead(&retrying(), 100).await?;
    assert_eq!(left.len(), 1, "another route's is left alone");
    assert_eq!(left[0].route, "other");
    kit.store.renew(&other, TTL).await
}

async fn holders_are_fenced_where_retrying_messages_are_given_up(
    kit: Kit,
) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let message = keyed("k", 1);
    settle(&kit, &lease, vec![park(1, &message, refused(1, NOW))]).await?;
    assert_eq!(due(&kit, &lease).await?, [1], "the holder is about to try it");
    assert_eq!(kit.store.discard(&retrying(), "ada", "no use").await?, 1);
    let delivered = Settlement { delivered: vec![1], ..Settlement::default() };
    let settled = kit.store.settle(&lease, &delivered).await;
    assert_kind(settled, StoreErrorKind::Fenced, "what the holder learned of it");
    assert_kind(kit.store.renew(&lease, TTL).await, StoreErrorKind::Fenced, "its lease");
    let next = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert!(next.lease.epoch > lease.epoch && next.blocked.is_empty());
    assert_eq!(due(&kit, &next.lease).await?, [] as [Seq; 0]);
    assert_eq!(kit.store.dead(&of_ids(&[message.id]), 1).await?.len(), 1, "its record stays");
    Ok(())
}

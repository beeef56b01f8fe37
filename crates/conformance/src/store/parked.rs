//! Parked messages: what is due, in which order, and which keys wait.

use std::time::Duration;

use posthaste_core::{
    Failure, Lease, Message, Next, Park, ParkedFilter, Repark, Seq, Settled, Settlement, Shard,
    StoreError, bucket,
};

use super::{
    case::cases,
    kit::{Kit, ROUTE, TTL, keyed, keyless, park, refused, waiting},
};

cases! { "parked";
    Nothing: [
        retry_is_due_when_due_and_not_before,
        next_attempt_is_announced,
        refused_again_waits_again,
        copy_is_whole,
        reports_are_kept,
        long_error_is_shortened,
        parking_twice_changes_nothing,
        age_goes_on,
        time_of_enqueueing_stays,
        followers_wait_behind_the_head_in_order,
        limit_never_splits_a_follower_from_its_head,
        bytes_bound_what_is_due,
        delivered_head_lets_the_next_go,
        other_keys_do_not_wait,
        dead_letter_lets_its_key_go_on,
        blocking_dead_letter_holds_its_key,
        discarding_the_blocker_releases_the_key,
        redriving_the_blocker_releases_the_key_behind_it,
        keyless_messages_never_wait,
        freed_keys_are_reported,
        grant_names_blocked_keys,
        keys_differ_by_case_and_space,
        shards_park_apart,
        routes_park_apart,
    ],
}

const NOW: Next = Next::Retry(Duration::ZERO);
const IN_AN_HOUR: Next = Next::Retry(Duration::from_secs(3600));
const HOUR: Duration = Duration::from_secs(3600);

async fn settle(kit: &Kit, lease: &Lease, park: Vec<Park>) -> Result<Settled, StoreError> {
    let settlement = Settlement { park, ..Settlement::default() };
    kit.store.settle(lease, &settlement).await
}

async fn repark(kit: &Kit, lease: &Lease, repark: Repark) -> Result<Settled, StoreError> {
    let settlement = Settlement { repark: vec![repark], ..Settlement::default() };
    kit.store.settle(lease, &settlement).await
}

async fn delivered(kit: &Kit, lease: &Lease, seqs: &[Seq]) -> Result<Settled, StoreError> {
    let settlement = Settlement { delivered: seqs.to_vec(), ..Settlement::default() };
    kit.store.settle(lease, &settlement).await
}

/// What is due, as seqs.
async fn due(kit: &Kit, lease: &Lease) -> Result<Vec<Seq>, StoreError> {
    let due = kit.store.due(lease, 100, usize::MAX).await?.messages;
    Ok(due.into_iter().map(|parked| parked.seq).collect())
}

/// A head that was refused and may be tried again then, and followers behind it, all of key `k`.
fn queue(next: Next, followers: Seq) -> Vec<Park> {
    let mut queue = vec![park(1, &keyed("k", 1), refused(1, next))];
    queue.extend((2..2 + followers).map(|seq| park(seq, &keyed("k", 0), waiting)));
    queue
}

async fn retry_is_due_when_due_and_not_before(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let parks = vec![
        park(1, &keyed("now", 1), refused(1, NOW)),
        park(2, &keyed("later", 2), refused(1, IN_AN_HOUR)),
    ];
    settle(&kit, &lease, parks).await?;
    assert_eq!(due(&kit, &lease).await?, [1]);
    kit.bed.advance(HOUR / 2).await;
    assert_eq!(due(&kit, &lease).await?, [1]);
    kit.bed.advance(HOUR).await;
    let mut all = due(&kit, &lease).await?;
    all.sort_unstable();
    assert_eq!(all, [1, 2]);
    Ok(())
}

async fn next_attempt_is_announced(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let none = kit.store.due(&lease, 100, usize::MAX).await?;
    assert!(none.messages.is_empty() && none.next_in.is_none());
    settle(&kit, &lease, queue(IN_AN_HOUR, 2)).await?;
    let later = kit.store.due(&lease, 100, usize::MAX).await?;
    assert!(later.messages.is_empty());
    let next_in = later.next_in.expect("an attempt is planned");
    assert!(
        next_in <= HOUR && next_in > HOUR / 2,
        "the head decides when, not those behind it: {next_in:?}"
    );
    repark(&kit, &lease, refused(2, Next::DeadAndBlock)(1)).await?;
    let blocked = kit.store.due(&lease, 100, usize::MAX).await?;
    assert!(
        blocked.messages.is_empty() && blocked.next_in.is_none(),
        "what waits for a person is not planned: {:?}",
        blocked.next_in
    );
    Ok(())
}

async fn refused_again_waits_again(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    settle(&kit, &lease, queue(NOW, 1)).await?;
    repark(&kit, &lease, refused(2, IN_AN_HOUR)(1)).await?;
    assert!(due(&kit, &lease).await?.is_empty());
    kit.bed.advance(HOUR * 2).await;
    let parked = kit.store.due(&lease, 100, usize::MAX).await?.messages;
    assert_eq!(parked.len(), 2);
    assert_eq!((parked[0].seq, parked[0].attempts), (1, 2));
    Ok(())
}

async fn copy_is_whole(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let full = Message::from_bytes("straße", Some("Ключ '\""), vec![0, 255, b'\''])
        .event_type("Placed")
        .content_type("application/octet-stream")
        .header("zulu", "first")
        .header("alpha", "second \u{1f4ef}");
    let bare = Message::from_bytes("t", None, "");
    let parks = vec![park(1, &full, refused(1, NOW)), park(2, &bare, refused(1, NOW))];
    settle(&kit, &lease, parks).await?;
    let mut parked = kit.store.due(&lease, 100, usize::MAX).await?.messages;
    parked.sort_by_key(|parked| parked.seq);
    assert_eq!(parked[0].message, full);
    assert_eq!(parked[1].message, bare);
    Ok(())
}

async fn reports_are_kept(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let message = keyed("k", 1);
    let report = |attempts, unknowns, class, next| Repark {
        seq: 1,
        attempts,
        unknowns,
        failure: Some(Failure::new(class, format!("détail of {class} '\"\\"))),
        next,
    };
    let first =
        Park { message: message.clone(), age: Duration::ZERO, report: report(1, 0, "first", NOW) };
    settle(&kit, &lease, vec![first]).await?;
    repark(&kit, &lease, report(1, 3, "second", NOW)).await?;
    let parked = kit.store.due(&lease, 100, usize::MAX).await?.messages;
    assert_eq!((parked[0].attempts, parked[0].unknowns), (1, 3));
    assert_eq!(parked[0].redriven, 0);
    repark(&kit, &lease, report(5, 4, "last", Next::Dead)).await?;
    let dead = kit.store.dead(&ParkedFilter::default(), 100).await?;
    let [dead] = dead.as_slice() else { panic!("{} dead letters", dead.len()) };
    let error = |class: &str| Some((class.to_owned(), format!("détail of {class} '\"\\")));
    assert_eq!((dead.attempts, dead.unknowns), (5, 4));
    assert_eq!(dead.first_error, error("first"));
    assert_eq!(dead.last_error, error("last"));
    Ok(())
}

/// What brokers say can be long, and cutting it must not cut a character.
async fn long_error_is_shortened(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    for (seq, text) in [(1, "x"), (2, "xé"), (3, "\u{1f4ef}")] {
        let detail = text.repeat(100_000);
        let failure = Failure { detail: detail.clone(), ..Failure::new("long", "") };
        let report = Repark { failure: Some(failure), ..refused(1, Next::Dead)(seq) };
        settle(&kit, &lease, vec![park(seq, &keyless(1), |_| report)]).await?;
        let dead = kit.store.dead(&ParkedFilter::default(), 100).await?;
        let dead = dead.iter().find(|dead| dead.seq == seq).expect("it is dead");
        let (_, kept) = dead.last_error.clone().expect("it has an error");
        assert!(detail.starts_with(&kept), "the head is kept");
        let bytes = Failure::DETAIL_MAX - 3..=Failure::DETAIL_MAX;
        assert!(bytes.contains(&kept.len()), "{} bytes kept", kept.len());
    }
    Ok(())
}

async fn parking_twice_changes_nothing(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let message = keyed("k", 1);
    settle(&kit, &lease, vec![park(1, &message, refused(3, NOW))]).await?;
    let again = vec![park(1, &message, refused(1, Next::Dead))];
    settle(&kit, &lease, again).await?;
    let parked = kit.store.due(&lease, 100, usize::MAX).await?.messages;
    assert_eq!(parked.len(), 1, "still waiting for its next attempt, once");
    assert_eq!(parked[0].attempts, 3);
    Ok(())
}

async fn age_goes_on(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let old = Park { age: HOUR, ..park(1, &keyed("k", 1), refused(1, NOW)) };
    settle(&kit, &lease, vec![old]).await?;
    kit.bed.advance(HOUR).await;
    let age = kit.store.due(&lease, 100, usize::MAX).await?.messages[0].age;
    assert!((HOUR * 2..HOUR * 3).contains(&age), "{age:?} after two hours");
    Ok(())
}

/// To the last digit: every copy of a message tells the same time.
async fn time_of_enqueueing_stays(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    kit.commit(&[keyed("k", 1)]).await?;
    let fetched = kit.read_log().await?.remove(0);
    let later = fetched.age + HOUR;
    let old = Park { age: later, ..park(fetched.seq, &fetched.message, refused(1, NOW)) };
    settle(&kit, &lease, vec![old]).await?;
    let parked = kit.store.due(&lease, 100, usize::MAX).await?.messages.remove(0);
    assert_eq!(parked.enqueued_at, fetched.enqueued_at);
    Ok(())
}

async fn followers_wait_behind_the_head_in_order(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    settle(&kit, &lease, queue(IN_AN_HOUR, 3)).await?;
    assert!(due(&kit, &lease).await?.is_empty(), "followers are ready, but their head is not");
    kit.bed.advance(HOUR * 2).await;
    assert_eq!(due(&kit, &lease).await?, [1, 2, 3, 4]);
    // A later settlement brings more of the key, and one that was read late goes to its place.
    settle(&kit, &lease, vec![park(9, &keyed("k", 9), waiting)]).await?;
    settle(&kit, &lease, vec![park(7, &keyed("k", 7), waiting)]).await?;
    assert_eq!(due(&kit, &lease).await?, [1, 2, 3, 4, 7, 9]);
    Ok(())
}

async fn limit_never_splits_a_follower_from_its_head(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let mut parks = queue(NOW, 2);
    parks.push(park(10, &keyed("l", 10), refused(1, NOW)));
    parks.push(park(11, &keyed("l", 11), waiting));
    settle(&kit, &lease, parks).await?;
    for limit in 1..=6 {
        let due = kit.store.due(&lease, limit, usize::MAX).await?.messages;
        assert_eq!(due.len(), 5.min(limit as usize), "limit {limit}");
        for (key, all) in [("k", [1, 2, 3].as_slice()), ("l", &[10, 11])] {
            let of_key = due.iter().filter(|due| due.message.key.as_deref() == Some(key));
            let seqs: Vec<Seq> = of_key.map(|due| due.seq).collect();
            assert!(all.starts_with(&seqs), "limit {limit}: {seqs:?} of {key}");
        }
    }
    Ok(())
}

async fn bytes_bound_what_is_due(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let sized = |seq: Seq| {
        let mut message = keyed("k", 0);
        message.payload = vec![7; 1000].into();
        park(seq, &message, |seq| if seq == 1 { refused(1, NOW)(seq) } else { waiting(seq) })
    };
    settle(&kit, &lease, (1..=5).map(sized).collect()).await?;
    for (bytes_max, expected) in [(0, 1), (1000, 1), (2999, 2), (3000, 3), (1 << 20, 5)] {
        let due = kit.store.due(&lease, 100, bytes_max).await?.messages;
        assert_eq!(due.len(), expected, "{bytes_max} bytes");
    }
    Ok(())
}

async fn delivered_head_lets_the_next_go(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    settle(&kit, &lease, queue(NOW, 3)).await?;
    delivered(&kit, &lease, &[1]).await?;
    assert_eq!(due(&kit, &lease).await?, [2, 3, 4]);
    repark(&kit, &lease, refused(1, IN_AN_HOUR)(2)).await?;
    assert!(due(&kit, &lease).await?.is_empty(), "the next holds it now");
    kit.bed.advance(HOUR * 2).await;
    assert_eq!(due(&kit, &lease).await?, [2, 3, 4]);
    delivered(&kit, &lease, &[2, 3, 4]).await?;
    let left = kit.store.due(&lease, 100, usize::MAX).await?;
    assert!(left.messages.is_empty() && left.next_in.is_none());
    Ok(())
}

async fn other_keys_do_not_wait(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    settle(&kit, &lease, queue(IN_AN_HOUR, 2)).await?;
    settle(&kit, &lease, vec![park(8, &keyed("other", 8), refused(1, NOW))]).await?;
    assert_eq!(due(&kit, &lease).await?, [8]);
    Ok(())
}

async fn dead_letter_lets_its_key_go_on(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    settle(&kit, &lease, queue(NOW, 2)).await?;
    let settled = repark(&kit, &lease, refused(9, Next::Dead)(1)).await?;
    assert!(settled.unblocked.is_empty(), "its followers still hold it");
    assert_eq!(due(&kit, &lease).await?, [2, 3]);
    let settled = delivered(&kit, &lease, &[2, 3]).await?;
    assert_eq!(settled.unblocked, ["k"]);
    assert!(due(&kit, &lease).await?.is_empty(), "nobody retries the dead");
    Ok(())
}

async fn blocking_dead_letter_holds_its_key(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    settle(&kit, &lease, queue(NOW, 2)).await?;
    let settled = repark(&kit, &lease, refused(9, Next::DeadAndBlock)(1)).await?;
    assert!(settled.unblocked.is_empty());
    kit.bed.advance(TTL * 2).await;
    assert!(due(&kit, &lease).await?.is_empty());
    let dead = kit.store.dead(&ParkedFilter::default(), 100).await?;
    assert_eq!(dead.len(), 1, "it is a dead letter like any other");
    let next = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert_eq!(next.blocked, ["k"]);
    Ok(())
}

async fn discarding_the_blocker_releases_the_key(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    settle(&kit, &lease, queue(NOW, 2)).await?;
    repark(&kit, &lease, refused(9, Next::DeadAndBlock)(1)).await?;
    let all = ParkedFilter::default();
    assert_eq!(kit.store.discard(&all, "ada", "agreed with sales").await?, 1);
    assert_eq!(due(&kit, &lease).await?, [2, 3]);
    let settled = delivered(&kit, &lease, &[2, 3]).await?;
    assert_eq!(settled.unblocked, ["k"]);
    Ok(())
}

async fn redriving_the_blocker_releases_the_key_behind_it(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    settle(&kit, &lease, queue(NOW, 2)).await?;
    repark(&kit, &lease, refused(9, Next::DeadAndBlock)(1)).await?;
    assert_eq!(kit.store.redrive(&ParkedFilter::default(), "ada").await?, 1);
    assert_eq!(due(&kit, &lease).await?, [1, 2, 3]);
    let settled = delivered(&kit, &lease, &[1]).await?;
    assert!(settled.unblocked.is_empty());
    let settled = delivered(&kit, &lease, &[2, 3]).await?;
    assert_eq!(settled.unblocked, ["k"]);
    Ok(())
}

async fn keyless_messages_never_wait(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let parks = vec![
        park(1, &keyless(1), refused(1, IN_AN_HOUR)),
        park(2, &keyless(2), refused(1, NOW)),
        park(3, &keyless(3), refused(9, Next::DeadAndBlock)),
        park(4, &keyless(4), refused(1, NOW)),
    ];
    let settled = settle(&kit, &lease, parks).await?;
    assert!(settled.unblocked.is_empty(), "no key, nothing to free");
    let mut now = due(&kit, &lease).await?;
    now.sort_unstable();
    assert_eq!(now, [2, 4]);
    kit.bed.advance(TTL * 2).await;
    let next = kit.granted(ROUTE, Shard::WHOLE).await?;
    assert!(next.blocked.is_empty(), "no key, nothing blocked");
    Ok(())
}

async fn freed_keys_are_reported(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let parks = vec![
        park(1, &keyed("a", 1), refused(1, NOW)),
        park(2, &keyed("b", 2), refused(1, NOW)),
        park(3, &keyed("b", 3), waiting),
        park(4, &keyed("c", 4), refused(1, NOW)),
        park(5, &keyed("d", 5), refused(1, NOW)),
        park(6, &keyed("untouched", 6), refused(1, NOW)),
        park(7, &keyed("stillborn", 7), refused(1, Next::Dead)),
    ];
    let settled = settle(&kit, &lease, parks).await?;
    assert_eq!(settled.unblocked, ["stillborn"], "dead at once holds nothing");
    let settlement = Settlement {
        repark: vec![refused(2, NOW)(4), refused(9, Next::Dead)(5)],
        delivered: vec![1, 2],
        ..Settlement::default()
    };
    let mut unblocked = kit.store.settle(&lease, &settlement).await?.unblocked;
    unblocked.sort_unstable();
    assert_eq!(unblocked, ["a", "d"]);
    Ok(())
}

async fn grant_names_blocked_keys(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let parks = vec![
        park(1, &keyed("due", 1), refused(1, NOW)),
        park(2, &keyed("due", 2), waiting),
        park(3, &keyed("planned", 3), refused(1, IN_AN_HOUR)),
        park(4, &keyed("dead", 4), refused(9, Next::Dead)),
        park(5, &keyed("blocked", 5), refused(9, Next::DeadAndBlock)),
        park(6, &keyed("gone", 6), refused(1, NOW)),
    ];
    settle(&kit, &lease, parks).await?;
    delivered(&kit, &lease, &[6]).await?;
    kit.bed.advance(TTL * 2).await;
    let mut blocked = kit.granted(ROUTE, Shard::WHOLE).await?.blocked;
    blocked.sort_unstable();
    assert_eq!(blocked, ["blocked", "due", "planned"]);
    Ok(())
}

/// Some databases take `abc` and `ABC`, or `q` and `q `, for the same.
async fn keys_differ_by_case_and_space(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    settle(&kit, &lease, vec![park(1, &keyed("key", 1), refused(1, IN_AN_HOUR))]).await?;
    let alike = ["KEY", "key ", " key", "ke\u{301}y", "kéy"];
    let parks = alike.iter().zip(2..);
    let parks = parks.map(|(key, seq)| park(seq, &keyed(key, 0), refused(1, NOW)));
    settle(&kit, &lease, parks.collect()).await?;
    let mut now = due(&kit, &lease).await?;
    now.sort_unstable();
    assert_eq!(now, [2, 3, 4, 5, 6]);
    let settled = delivered(&kit, &lease, &[2]).await?;
    assert_eq!(settled.unblocked, ["KEY"]);
    Ok(())
}

async fn shards_park_apart(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["*"], 2).await?;
    let shards = [Shard { index: 0, of: 2 }, Shard { index: 1, of: 2 }];
    let keys: Vec<String> = (0..20).map(|n| format!("key-{n}")).collect();
    for shard in shards {
        let lease = kit.granted(ROUTE, shard).await?.lease;
        let own = |(key, _): &(&String, Seq)| shard.serves(bucket(Some(key), 0));
        let owned = keys.iter().zip(1..).filter(own);
        let mut parks: Vec<Park> =
            owned.map(|(key, seq)| park(seq, &keyed(key, 0), refused(1, NOW))).collect();
        let keyless_seqs = (100..110).filter(|seq| shard.serves(bucket(None, *seq)));
        parks.extend(keyless_seqs.map(|seq| park(seq, &keyless(0), refused(1, NOW))));
        settle(&kit, &lease, parks).await?;
    }
    kit.bed.advance(TTL * 2).await;
    for shard in shards {
        let grant = kit.granted(ROUTE, shard).await?;
        for key in &grant.blocked {
            assert!(shard.serves(bucket(Some(key), 0)), "{key} is not of {shard}");
        }
        let due = kit.store.due(&grant.lease, 100, usize::MAX).await?.messages;
        assert!(!due.is_empty() && !grant.blocked.is_empty());
        for due in due {
            let bucket = bucket(due.message.key.as_deref(), due.seq);
            assert!(shard.serves(bucket), "{} is not of {shard}", due.seq);
        }
    }
    Ok(())
}

async fn routes_park_apart(kit: Kit) -> Result<(), StoreError> {
    let mut leases = Vec::new();
    for route in ["one", "two"] {
        kit.register(route, &["*"], 1).await?;
        let lease = kit.granted(route, Shard::WHOLE).await?.lease;
        settle(&kit, &lease, queue(NOW, 1)).await?;
        leases.push(lease);
    }
    let settled = delivered(&kit, &leases[0], &[1, 2]).await?;
    assert_eq!(settled.unblocked, ["k"]);
    assert!(due(&kit, &leases[0]).await?.is_empty());
    assert_eq!(due(&kit, &leases[1]).await?, [1, 2]);
    Ok(())
}

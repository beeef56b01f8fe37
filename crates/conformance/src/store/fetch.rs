//! Reading the log: order, limits, topics, shards, barriers. Late commits have their own
//! [module](super::late).

use std::{collections::BTreeMap, time::Duration};

use posthaste_core::{
    Fetch, Lease, Message, Position, Seq, Shard, StoreError, StoreErrorKind, TopicPattern, bucket,
};

use super::{
    case::cases,
    kit::{
        Kit, ROUTE, Reader, TTL, assert_kind, fetch, keyed, keyless, keyless_many, messages, texts,
    },
};

cases! { "fetch";
    Nothing: [
        empty_log_has_nothing,
        messages_come_in_the_order_of_their_commits,
        what_was_passed_does_not_come_again,
        rows_bound_a_batch,
        bytes_bound_a_batch,
        message_over_the_byte_budget_comes_alone,
        rare_topic_gets_past_the_others,
        topic_patterns_are_taken_literally,
        overlapping_patterns_yield_a_message_once,
        changed_topics_count_at_once,
        first_registration_starts_at_the_beginning,
        shards_split_everything_exactly_once,
        routes_read_apart,
        until_leaves_out_what_it_does_not_cover,
        position_survives_as_text,
        age_is_the_databases,
        only_the_latest_holder_reads_as_one,
        unknown_route_is_refused,
    ],
}

async fn empty_log_has_nothing(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let mut reader = Reader::paging(&kit, 10);
    let batch = reader.page().await?;
    assert!(batch.messages.is_empty() && !batch.more);
    kit.commit(&[keyless(1)]).await?;
    let read = reader.read_all().await?;
    assert_eq!(read.len(), 1, "an empty log is no reason to skip");
    Ok(())
}

async fn messages_come_in_the_order_of_their_commits(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let sent: Vec<Message> =
        (0..30).map(|number| keyed(["a", "b", "c"][number % 3], number)).collect();
    for transaction in sent.chunks(4) {
        kit.commit(transaction).await?;
    }
    assert_eq!(messages(kit.read_log().await?), sent);
    Ok(())
}

async fn what_was_passed_does_not_come_again(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let mut reader = Reader::paging(&kit, 100);
    for round in 0..3 {
        kit.commit(&[keyless(round * 2), keyless(round * 2 + 1)]).await?;
        let read = texts(&messages(reader.read_all().await?));
        assert_eq!(read, [(round * 2).to_string(), (round * 2 + 1).to_string()]);
        assert!(reader.read_all().await?.is_empty(), "round {round}");
    }
    Ok(())
}

async fn rows_bound_a_batch(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let sent = keyless_many(10);
    kit.commit(&sent).await?;
    for rows_max in [1, 3, 9, 10, 11] {
        let mut reader = Reader::paging(&kit, rows_max);
        let first = reader.page().await?;
        assert_eq!(
            first.messages.len(),
            10.min(rows_max as usize),
            "a full page of {rows_max} rows"
        );
        assert!(first.more || rows_max >= 10, "more for {rows_max} rows");
        let mut read = messages(first.messages);
        read.extend(messages(reader.read_all().await?));
        assert_eq!(read, sent, "pages of {rows_max} rows");
    }
    Ok(())
}

async fn bytes_bound_a_batch(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let sent: Vec<Message> =
        (0..12).map(|number| Message::from_bytes("t", None, vec![0; 100 + number])).collect();
    kit.commit(&sent).await?;
    for bytes_max in [100, 250, 500, 1266, 5_000] {
        let mut reader = Reader::paging(&kit, 100);
        reader.fetch.bytes_max = bytes_max;
        let read = messages(reader.read_all().await?);
        assert_eq!(read, sent, "pages of {bytes_max} bytes");
    }
    Ok(())
}

async fn message_over_the_byte_budget_comes_alone(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let sizes = [10, 5_000, 10, 10, 5_000, 5_000];
    let sent = sizes.map(|size| Message::from_bytes("t", None, vec![1; size]));
    kit.commit(&sent).await?;
    let mut reader = Reader::paging(&kit, 100);
    reader.fetch.bytes_max = 1_000;
    let mut pages = Vec::new();
    loop {
        let batch = reader.page().await?;
        let page: Vec<usize> = batch.messages.iter().map(|m| m.message.payload.len()).collect();
        pages.extend((!page.is_empty()).then_some(page));
        if !batch.more {
            break;
        }
    }
    assert_eq!(pages, [vec![10], vec![5_000], vec![10, 10], vec![5_000], vec![5_000]]);
    Ok(())
}

/// A route whose topic is rare must get past other routes' messages, however few rows it may look
/// at, and its position with it.
async fn rare_topic_gets_past_the_others(kit: Kit) -> Result<(), StoreError> {
    kit.register("rare", &["rare"], 1).await?;
    kit.commit(&keyless_many(100)).await?;
    kit.commit(&[Message::from_bytes("rare", None, "found")]).await?;
    kit.commit(&keyless_many(100)).await?;
    let mut reader = Reader::new(&kit, "rare", Shard::WHOLE, Position::default());
    reader.fetch.rows_max = 10;
    let read = messages(reader.read_all().await?);
    assert_eq!(texts(&read), ["found"]);
    let end = reader.position().seq();
    assert!(end > 101, "position {end} is behind foreign topics");
    Ok(())
}

/// Every character that some pattern language takes for special is itself; only `*` is not.
async fn topic_patterns_are_taken_literally(kit: Kit) -> Result<(), StoreError> {
    let topics = [
        "a_b",
        "axb",
        "a%b",
        "axxb",
        "a[bc]d",
        "abd",
        "a?b",
        "a\\b",
        "a\\\\b",
        "a\\*",
        "a.b",
        "it's",
        "a\"b",
        "a''b",
        "orders",
        "Orders",
        "orders.eu",
        "orders.",
        "ORDERS.EU",
        "ord",
        "$1",
        "{a}",
        "[!a]",
        "b",
        "^a",
        "a|b",
        "(a)",
        "+",
        "é.x",
        "É.x",
        "e\u{301}.x",
        "a b",
        " ",
        "a b ",
        ";--",
    ];
    let patterns = [
        "a_b", "a%b", "a[bc]d", "a?b", "a\\b", "a\\*", "*\\*", "it's", "*'*", "*\"*", "orders",
        "Orders", "orders*", "orders.*", "*.eu", "*.EU", "*", "**", "a*b", "*a*b*", "$1", "{a}",
        "[!a]", "*[*", "^*", "*|*", "(a)", "+", "é*", "e*", "?", "_", "%", "_*", "%*", " ", "a b",
        ";--", ".",
    ];
    let sent = topics.map(|topic| Message::from_bytes(topic, None, ""));
    kit.commit(&sent).await?;
    for (index, text) in patterns.into_iter().enumerate() {
        let route = format!("route-{index}");
        kit.register(&route, &[text], 1).await?;
        let read = kit.read_from(&route, Shard::WHOLE, &Position::default()).await?;
        let read: Vec<String> = messages(read).into_iter().map(|m| m.topic).collect();
        let pattern: TopicPattern = text.parse().expect("a valid pattern");
        let expected: Vec<&str> = topics.into_iter().filter(|t| pattern.matches(t)).collect();
        assert_eq!(read, expected, "pattern `{text}`");
    }
    Ok(())
}

async fn overlapping_patterns_yield_a_message_once(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["orders", "ord*", "*.eu", "users"], 1).await?;
    let topics = ["orders", "orders.eu", "users", "carts", "users.us", "carts.eu"];
    let sent = topics.map(|topic| Message::from_bytes(topic, None, topic.to_owned()));
    kit.commit(&sent).await?;
    let read = messages(kit.read_log().await?);
    assert_eq!(texts(&read), ["orders", "orders.eu", "users", "carts.eu"]);
    Ok(())
}

async fn changed_topics_count_at_once(kit: Kit) -> Result<(), StoreError> {
    kit.register(ROUTE, &["a"], 1).await?;
    let both = || ["a", "b"].map(|topic| Message::from_bytes(topic, None, topic.to_owned()));
    kit.commit(&both()).await?;
    let mut reader = Reader::paging(&kit, 100);
    assert_eq!(texts(&messages(reader.read_all().await?)), ["a"]);
    kit.register(ROUTE, &["b"], 1).await?;
    kit.commit(&both()).await?;
    assert_eq!(texts(&messages(reader.read_all().await?)), ["b"]);
    Ok(())
}

async fn first_registration_starts_at_the_beginning(kit: Kit) -> Result<(), StoreError> {
    kit.commit(&keyless_many(5)).await?;
    let grant = kit.serving().await?;
    assert_eq!(grant.position.seq(), 0);
    let read = kit.read_from(ROUTE, Shard::WHOLE, &grant.position).await?;
    assert_eq!(read.len(), 5);
    Ok(())
}

async fn shards_split_everything_exactly_once(kit: Kit) -> Result<(), StoreError> {
    let mut sent: Vec<Message> = (0..200).map(|n| keyed(&format!("key-{n}"), n)).collect();
    sent.extend(["é", "Ключ", "a ", " a", "A", "\u{1f4ef}"].map(|key| keyed(key, 0)));
    sent.extend(keyless_many(100));
    kit.commit(&sent).await?;
    for of in [1, 2, 3, 7, 256] {
        let route = format!("of-{of}");
        kit.register(&route, &["*"], of).await?;
        let mut read: BTreeMap<Seq, Message> = BTreeMap::new();
        for index in 0..of {
            let shard = Shard { index, of };
            for fetched in kit.read_from(&route, shard, &Position::default()).await? {
                let (seq, message) = (fetched.seq, fetched.message);
                assert!(
                    shard.serves(bucket(message.key.as_deref(), seq)),
                    "shard {shard} got {message:?} at {seq}, which core gives to another"
                );
                assert!(read.insert(seq, message).is_none(), "{seq} twice of {of}");
            }
        }
        let read: Vec<Message> = read.into_values().collect();
        assert!(read == sent, "{} of {} in {of} shards", read.len(), sent.len());
    }
    Ok(())
}

async fn routes_read_apart(kit: Kit) -> Result<(), StoreError> {
    kit.register("one", &["orders"], 1).await?;
    kit.register("two", &["orders"], 1).await?;
    kit.commit(&keyless_many(3)).await?;
    let one = kit.granted("one", Shard::WHOLE).await?;
    let mut reader = Reader::new(&kit, "one", Shard::WHOLE, one.position);
    assert_eq!(reader.read_all().await?.len(), 3);
    kit.settle_at(&one.lease, reader.position()).await?;
    let two = kit.granted("two", Shard::WHOLE).await?;
    let read = kit.read_from("two", Shard::WHOLE, &two.position).await?;
    assert_eq!(read.len(), 3, "progress of one route is none of another's");
    Ok(())
}

async fn until_leaves_out_what_it_does_not_cover(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    kit.commit(&keyless_many(7)).await?;
    let mut ahead = Reader::paging(&kit, 100);
    assert_eq!(ahead.read_all().await?.len(), 7);
    let until = ahead.position().clone();
    let after: Vec<Message> = (7..12).map(keyless).collect();
    kit.commit(&after).await?;
    for rows_max in [1, 3, 100] {
        let mut reader = Reader::paging(&kit, rows_max);
        reader.fetch.until = Some(until.clone());
        let read = texts(&messages(reader.read_all().await?));
        assert_eq!(read, ["0", "1", "2", "3", "4", "5", "6"]);
        assert!(reader.read_all().await?.is_empty(), "nothing more until then");
        reader.fetch.until = None;
        let rest = messages(reader.read_all().await?);
        assert_eq!(rest, after, "what lay beyond is still to come");
    }
    Ok(())
}

/// Stores keep positions as text, and relays hand them on.
async fn position_survives_as_text(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    kit.commit(&keyless_many(3)).await?;
    let mut reader = Reader::paging(&kit, 100);
    reader.read_all().await?;
    let text = reader.position().to_string();
    let position: Position = text.parse().expect("a position parses what it prints");
    assert_eq!(&position, reader.position());
    kit.commit(&[keyless(3)]).await?;
    let read = messages(kit.read_from(ROUTE, Shard::WHOLE, &position).await?);
    assert_eq!(texts(&read), ["3"]);
    Ok(())
}

async fn age_is_the_databases(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    kit.commit(&[keyless(1)]).await?;
    let hour = Duration::from_secs(3600);
    assert!(kit.read_log().await?[0].age < hour, "a new message is new");
    kit.bed.advance(hour).await;
    let age = kit.read_log().await?[0].age;
    assert!((hour..hour * 2).contains(&age), "{age:?} after an hour");
    Ok(())
}

/// A relay that was taken for dead reads on. What its successor parked and retention removed is missing,
/// so what is left must not look like what comes next.
async fn only_the_latest_holder_reads_as_one(kit: Kit) -> Result<(), StoreError> {
    let lost = kit.serving().await?.lease;
    kit.commit(&[keyless(1)]).await?;
    let as_holder = |lease: &Lease, after: &Position| Fetch {
        after: after.clone(),
        epoch: Some(lease.epoch),
        evidence: None,
        ..fetch(ROUTE, Shard::WHOLE)
    };
    let start = Position::default();
    let batch = kit.store.fetch(&as_holder(&lost, &start)).await?;
    assert_eq!(batch.messages.len(), 1, "held, so read");
    kit.bed.advance(TTL * 2).await;
    let batch = kit.store.fetch(&as_holder(&lost, &start)).await?;
    assert_eq!(batch.messages.len(), 1, "nobody took it over");
    let held = kit.granted(ROUTE, Shard::WHOLE).await?.lease;
    let end = start.passed(batch.end, &batch.snapshot);
    for (after, what) in [(&start, "of what is there"), (&end, "of nothing")] {
        let fetched = kit.store.fetch(&as_holder(&lost, after)).await;
        assert_kind(fetched, StoreErrorKind::Fenced, what);
        kit.store.fetch(&as_holder(&held, after)).await?;
    }
    let nobody = Fetch { epoch: None, ..as_holder(&lost, &start) };
    assert_eq!(kit.store.fetch(&nobody).await?.messages.len(), 1, "looking needs no lease");
    Ok(())
}

async fn unknown_route_is_refused(kit: Kit) -> Result<(), StoreError> {
    let request = Fetch { rows_max: 1, ..fetch("nowhere", Shard::WHOLE) };
    let fetched = kit.store.fetch(&request).await;
    assert_kind(fetched, StoreErrorKind::Refused, "fetch");
    Ok(())
}

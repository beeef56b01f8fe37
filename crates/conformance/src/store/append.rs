//! Enqueueing: all or nothing, bytes in = bytes out, the same limits on every way in.

use posthaste_core::{
    HEADERS_BYTES_MAX, KEY_BYTES_MAX, Message, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, StoreError,
    StoreErrorKind, TOPIC_BYTES_MAX,
};

use super::{
    case::cases,
    kit::{Kit, assert_kind, keyed, keyless, keyless_many, messages, texts},
};

cases! { "append";
    Nothing: [
        committed_message_is_there,
        rollback_leaves_nothing,
        transaction_is_all_or_nothing,
        nothing_to_enqueue_is_fine,
        any_bytes_come_back,
        every_field_comes_back,
        large_call_keeps_its_order,
        limits_are_inclusive,
        what_breaks_a_limit_is_refused_whole,
        plain_insert_equals_the_library,
        plain_insert_obeys_the_same_limits,
    ],
}

async fn committed_message_is_there(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let (first, second) = (keyed("a", 1), keyed("a", 2));
    kit.commit(std::slice::from_ref(&first)).await?;
    kit.store.append(std::slice::from_ref(&second)).await?;
    assert_eq!(messages(kit.read_log().await?), [first, second]);
    Ok(())
}

async fn rollback_leaves_nothing(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let mut writer = kit.bed.begin().await;
    writer.enqueue(&[keyless(1)]).await?;
    writer.rollback().await;
    kit.commit(&[keyless(2)]).await?;
    assert_eq!(texts(&messages(kit.read_log().await?)), ["2"]);
    Ok(())
}

async fn transaction_is_all_or_nothing(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let mut writer = kit.bed.begin().await;
    writer.touch().await;
    writer.enqueue(&[keyless(1)]).await?;
    writer.enqueue(&[keyless(2), keyless(3)]).await?;
    assert!(kit.read_log().await?.is_empty(), "nothing before commit");
    writer.commit().await;
    assert_eq!(texts(&messages(kit.read_log().await?)), ["1", "2", "3"]);
    Ok(())
}

async fn nothing_to_enqueue_is_fine(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    kit.commit(&[]).await?;
    kit.store.append(&[]).await?;
    assert!(kit.read_log().await?.is_empty());
    Ok(())
}

async fn any_bytes_come_back(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let mut random = fastrand::Rng::with_seed(1);
    let megabyte: Vec<u8> = (0..1024 * 1024).map(|_| random.u8(..)).collect();
    let payloads: [Vec<u8>; 8] = [
        vec![],
        vec![0],
        b"before\0after".to_vec(),
        vec![0xff, 0xfe, 0xc3, 0x28],
        (0..=255).collect(),
        b"\\x00 \\\\ ' \" \r\n".to_vec(),
        "\u{feff}déjà vu \u{1f4ef}".as_bytes().to_vec(),
        megabyte,
    ];
    let sent = payloads.map(|payload| Message::from_bytes("t", None, payload));
    kit.commit(&sent).await?;
    let read = messages(kit.read_log().await?);
    assert_eq!(read.len(), sent.len());
    for (index, (read, sent)) in read.iter().zip(&sent).enumerate() {
        // Not assert_eq: nobody wants to read a megabyte.
        assert!(read.payload == sent.payload, "payload {index} changed");
    }
    Ok(())
}

async fn every_field_comes_back(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let bare = keyless(0);
    let full = Message::from_bytes("straße.\u{1f4ef}", Some("Ключ '\" \\ ; --"), "{}")
        .event_type("Заказ\u{301} placed")
        .content_type("application/vnd.ö+json; charset=\"utf-8\"")
        .header("zulu", "last name first: the order given is kept")
        .header("alpha", "")
        .header("Alpha", "names differ by case")
        .header("mike", r#"{"json": "\u0000", 'quoted': [1e999, null]}"#)
        .header("名前", "\u{202e}\u{1f468}\u{200d}\u{1f469} ");
    kit.commit(&[bare.clone(), full.clone()]).await?;
    let read = messages(kit.read_log().await?);
    assert_eq!(read[0], bare);
    assert_eq!(read[1].headers, full.headers);
    assert_eq!(read[1], full);
    Ok(())
}

async fn large_call_keeps_its_order(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let sent: Vec<Message> =
        (0..5_000).map(|number| keyed("k", number).header("number", number.to_string())).collect();
    kit.commit(&sent).await?;
    assert!(messages(kit.read_log().await?) == sent, "order or content of 5,000 messages changed");
    Ok(())
}

async fn limits_are_inclusive(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let name = "n".repeat(NAME_BYTES_MAX);
    let largest = Message::from_bytes(
        "é".repeat(TOPIC_BYTES_MAX / 2),
        Some(&"é".repeat(KEY_BYTES_MAX / 2)),
        vec![7; PAYLOAD_BYTES_MAX],
    )
    .event_type(&name)
    .content_type(&name)
    .header(&name, "v".repeat(HEADERS_BYTES_MAX - NAME_BYTES_MAX));
    kit.commit(std::slice::from_ref(&largest)).await?;
    assert!(messages(kit.read_log().await?) == [largest]);
    Ok(())
}

async fn what_breaks_a_limit_is_refused_whole(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let bytes = |topic: &str, key: Option<&str>| Message::from_bytes(topic, key, "");
    let long = |bytes_max: usize| "x".repeat(bytes_max + 1);
    let bad = [
        bytes("", None),
        bytes(&long(TOPIC_BYTES_MAX), None),
        bytes("line\nbreak", None),
        bytes("nul\0", None),
        bytes("t", Some("")),
        bytes("t", Some(&long(KEY_BYTES_MAX))),
        bytes("t", Some("tab\t")),
        bytes("t", None).event_type(""),
        bytes("t", None).event_type(long(NAME_BYTES_MAX)),
        bytes("t", None).content_type("a\r\nb"),
        bytes("t", None).header("", "v"),
        bytes("t", None).header("n", "line\nbreak"),
        bytes("t", None).header("n", "1").header("n", "2"),
        bytes("t", None).header("n", long(HEADERS_BYTES_MAX)),
        Message::from_bytes("t", None, vec![0; PAYLOAD_BYTES_MAX + 1]),
    ];
    for bad in bad {
        let what = format!("{bad:?}");
        let call = [keyless(1), bad, keyless(2)];
        let appended = kit.store.append(&call).await;
        assert_kind(appended, StoreErrorKind::Refused, &what);
        let mut writer = kit.bed.begin().await;
        let enqueued = writer.enqueue(&call).await;
        assert_kind(enqueued, StoreErrorKind::Refused, &what);
        writer.rollback().await;
    }
    assert!(kit.read_log().await?.is_empty(), "something was stored");
    Ok(())
}

async fn plain_insert_equals_the_library(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let payload = [b'{', 0, 255, b'}'];
    for key in [Some("Ключ"), None] {
        let inserted = kit.bed.insert_by_hand("orders", key, &payload).await;
        inserted.expect("a plain INSERT is taken");
        let library = Message::from_bytes("orders", key, payload.to_vec());
        kit.commit(&[library]).await?;
    }
    let read = messages(kit.read_log().await?);
    for pair in read.chunks(2) {
        let [by_hand, library] = pair else { panic!("{} messages", read.len()) };
        assert!(!by_hand.id.0.is_nil() && by_hand.id != library.id);
        let mut alike = by_hand.clone();
        alike.id = library.id;
        assert_eq!(&alike, library);
    }
    assert_ne!(read[0].id, read[2].id);
    Ok(())
}

async fn plain_insert_obeys_the_same_limits(kit: Kit) -> Result<(), StoreError> {
    kit.register_all().await?;
    let long_topic = "t".repeat(TOPIC_BYTES_MAX + 1);
    let long_key = "é".repeat(KEY_BYTES_MAX / 2 + 1);
    let large = vec![0; PAYLOAD_BYTES_MAX + 1];
    let rows: [(&str, Option<&str>, &[u8]); 7] = [
        ("", None, b""),
        (&long_topic, None, b""),
        ("line\nbreak", None, b""),
        ("t", Some(""), b""),
        ("t", Some(&long_key), b""),
        ("t", Some("del\u{7f}"), b""),
        ("t", None, &large),
    ];
    for (index, (topic, key, payload)) in rows.into_iter().enumerate() {
        let inserted = kit.bed.insert_by_hand(topic, key, payload).await;
        assert!(inserted.is_err(), "row {index} was taken");
    }
    kit.commit(&keyless_many(1)).await?;
    assert_eq!(kit.read_log().await?.len(), 1);
    Ok(())
}

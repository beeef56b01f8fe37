//! Several outboxes in one database, each under a name of its own.

mod bed;

use bed::{Bed, ROUTE, claim, fetch_after, message, payloads, settlement};
use posthaste_conformance::store::TestBed;
use posthaste_core::{
    InboxConnection, InboxStore, MessageId, Next, Park, Position, Repark, RouteSpec, Settlement,
    Store,
};
use posthaste_store_postgres::{Inbox, MIGRATIONS, Namespace, PostgresStore, enqueue, enqueue_in};

/// A database with two outboxes; the bed's store is of the default one.
async fn two_outboxes() -> (Bed, PostgresStore, Namespace) {
    let bed = Bed::bare().await;
    let namespace = Namespace::new("shop").expect("a valid name");
    let shop = PostgresStore::connect_in(&bed.url, &namespace).await.expect("a server");
    for store in [&bed.store, &shop] {
        let ran = store.migrate().await.expect("an empty namespace migrates");
        assert_eq!(ran.len(), MIGRATIONS.len());
        assert!(store.migrate().await.expect("tables are there").is_empty());
        store.check().await.expect("tables of this version");
    }
    (bed, shop, namespace)
}

async fn remove(bed: Bed, shop: PostgresStore) {
    shop.pool().close().await;
    bed.remove().await;
}

#[tokio::test]
async fn outboxes_of_two_namespaces_do_not_see_each_other() {
    let (bed, shop, namespace) = two_outboxes().await;
    bed.run(
        "SELECT posthaste.enqueue('orders', 'k', 'posthaste by SQL'); \
         SELECT shop.enqueue('orders', 'k', 'shop by SQL')",
    )
    .await;
    let mut transaction = bed.pool.begin().await.unwrap();
    enqueue(&mut transaction, &[message("posthaste by library")]).await.unwrap();
    let both = [message("shop by library"), message("shop again")];
    enqueue_in(&namespace, &mut transaction, &both).await.unwrap();
    transaction.commit().await.unwrap();
    let spec = RouteSpec { name: ROUTE.to_owned(), topics: vec!["*".parse().unwrap()], shards: 1 };
    let outboxes = [
        (&bed.store, &["posthaste by SQL", "posthaste by library"][..]),
        (&shop, &["shop by SQL", "shop by library", "shop again"]),
    ];
    for (store, expected) in outboxes {
        store.register(&spec).await.unwrap();
        // Free in this outbox, though the other one's is taken.
        let grant = store.acquire(&claim()).await.unwrap().expect("a free lease");
        let batch = store.fetch(&fetch_after(grant.position.clone())).await.unwrap();
        let expected: Vec<&[u8]> = expected.iter().map(|text| text.as_bytes()).collect();
        assert_eq!(payloads(&batch), expected);
        let park = Park {
            message: batch.messages[0].message.clone(),
            age: batch.messages[0].age,
            report: Repark {
                seq: batch.messages[0].seq,
                attempts: 1,
                unknowns: 0,
                failure: None,
                next: Next::Dead,
            },
        };
        let position = grant.position.passed(batch.end, &batch.snapshot);
        let parked = Settlement { park: vec![park], ..settlement(position.clone()) };
        store.settle(&grant.lease, &parked).await.unwrap();
        let batch = store.fetch(&fetch_after(position)).await.unwrap();
        assert!(batch.messages.is_empty());
        let status = store.status().await.unwrap();
        let [route] = &status.routes[..] else { panic!("{:?}", status.routes) };
        assert_eq!((route.dead, route.pending), (1, 0));
    }
    let positions = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    assert_eq!(positions.messages.len(), 2, "and what the other has settled is none of its");
    remove(bed, shop).await;
}

#[tokio::test]
async fn inboxes_of_two_namespaces_do_not_see_each_other() {
    let (bed, shop, _) = two_outboxes().await;
    let id = MessageId::fresh();
    let mut transaction = bed.pool.begin().await.unwrap();
    let mut inbox = Inbox::of(shop.dialect(), &mut transaction).unwrap();
    assert_eq!(inbox.record("billing", &[id]).await.unwrap(), 1);
    let mut inbox = Inbox::new(&mut transaction).unwrap();
    assert!(inbox.recorded("billing", &[id]).await.unwrap().is_empty());
    transaction.commit().await.unwrap();
    assert!(bed.store.inbox_status().await.unwrap().is_empty());
    assert_eq!(shop.inbox_status().await.unwrap().len(), 1);
    remove(bed, shop).await;
}

/// What doctor advises can be typed as it is.
#[tokio::test]
async fn findings_name_the_tables_of_the_namespace() {
    let (bed, shop, _) = two_outboxes().await;
    for (store, table) in [(&bed.store, "posthaste.outbox"), (&shop, "shop.outbox")] {
        let findings = store.examine().await.unwrap();
        let told = findings.iter().filter(|finding| finding.what.contains(".outbox"));
        let told: Vec<&str> = told.map(|finding| finding.what.as_str()).collect();
        assert!(told.len() == 2 && told.iter().all(|what| what.contains(table)), "{told:?}");
    }
    remove(bed, shop).await;
}

//! Asking twice.

use futures::future::join_all;
use serde_json::json;
use services_web::testing::Answer;

use crate::bed::{PATH, on_each_database, transfer};

on_each_database!(r1_06_a_replay_finds_the_first, |api| {
    let body = json!({"from_user_id": "user-abc", "to_user_id": "user-xyz", "amount": 500});
    let first = api.keyed("my-key-001", &body).await;
    assert_eq!(first.status, 201, "{first:#?}");
    // The same request, written in another way.
    let again =
        r#"{ "amount":500, "description":"", "to_user_id":"user-xyz", "from_user_id":"user-abc" }"#;
    for text in [body.to_string(), again.to_owned()] {
        let request = api.request("POST", PATH).header("idempotency-key", "my-key-001");
        let answer = Answer::to(request.body(text)).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:#?}");
        let id = &first.json()["data"]["id"];
        let expected = json!({"code": 200, "message": "transaction already exists",
            "data": {"id": id, "status": "PENDING"}});
        assert_eq!(answer.json(), expected);
    }
    assert_eq!(api.counts().await, (1, 1));
    // No key, and an empty one, are no keys.
    let unkeyed = [api.create(&body).await, api.create(&body).await];
    assert_ne!(unkeyed[0], unkeyed[1]);
    assert_eq!(api.keyed("", &body).await.status, 201);
    assert_eq!(api.keyed("", &body).await.status, 201);
    assert_eq!(api.counts().await, (5, 5));
});

on_each_database!(
    /// D3-02: losers of the race get the winner's transfer, not an error.
    r1_07_of_64_at_once_one_is_first,
    |api| {
        let body = transfer("user-a", "user-b", 7);
        let requests = (0..64).map(|_| Answer::to(api.keyed_request("race-1", &body)));
        let answers: Vec<_> = join_all(requests).await.into_iter().map(Result::unwrap).collect();
        let count = |status| answers.iter().filter(|answer| answer.status == status).count();
        assert_eq!((count(201), count(200)), (1, 63), "{answers:#?}");
        let id = answers[0].json()["data"]["id"].clone();
        assert!(answers.iter().all(|answer| answer.json()["data"]["id"] == id));
        assert_eq!(api.counts().await, (1, 1));
    }
);

on_each_database!(
    /// D3-03: another body is another request. D3-04: another sender's key is another key.
    r1_08_a_key_is_one_request_of_one_sender,
    |api| {
        let first = api.keyed("key-1", &transfer("user-a", "user-b", 500)).await;
        assert_eq!(first.status, 201, "{first:#?}");
        for other in [
            transfer("user-a", "user-b", 501),
            transfer("user-a", "user-c", 500),
            json!({"from_user_id": "user-a", "to_user_id": "user-b", "amount": 500,
                "description": "x"}),
        ] {
            let answer = api.keyed("key-1", &other).await;
            answer.expect_problem(422, "Idempotency-Key was used for another request");
        }
        assert_eq!(api.counts().await, (1, 1));
        let stranger = api.keyed("key-1", &transfer("user-z", "user-b", 500)).await;
        assert_eq!(stranger.status, 201, "{stranger:#?}");
        assert_ne!(stranger.json()["data"]["id"], first.json()["data"]["id"]);
        assert_eq!(api.counts().await, (2, 2));
    }
);

on_each_database!(r1_09_a_refused_request_does_not_use_its_key, |api| {
    let refused = api.keyed("key-1", &transfer("user-a", "user-b", 0)).await;
    refused.expect_problem(400, "amount must be greater than zero");
    assert_eq!(api.keyed("key-1", &transfer("user-a", "user-b", 1)).await.status, 201);
    // Once used, it does not let rules be broken.
    let refused = api.keyed("key-1", &transfer("user-a", "user-b", 0)).await;
    refused.expect_problem(400, "amount must be greater than zero");
});

on_each_database!(r1_10_keys_have_a_limit, |api| {
    let body = transfer("user-a", "user-b", 1);
    let answer = api.keyed(&"x".repeat(256), &body).await;
    answer.expect_problem(400, "Idempotency-Key must be at most 255 characters");
    let answer = api.keyed("schlüssel", &body).await;
    answer.expect_problem(400, "Idempotency-Key must be printable ASCII");
    let twice = api.keyed_request("a", &body).header("Idempotency-Key", "b");
    let answer = Answer::to(twice).await.unwrap();
    answer.expect_problem(400, "Idempotency-Key must be given once");
    assert_eq!(api.counts().await, (0, 0));
    for status in [201, 200] {
        assert_eq!(api.keyed(&"x".repeat(255), &body).await.status, status);
    }
});

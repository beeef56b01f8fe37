//! The API, over a connection.

use std::sync::Arc;

use articles::{domain::CONTENT_BYTES_MAX, http, service::Articles, storage::MemoryStorage};
use jiff::Timestamp;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

struct Api {
    url: String,
    client: Client,
    _stop: DropGuard,
}

impl Api {
    async fn start() -> Self {
        let articles = Articles::new(Arc::new(MemoryStorage::new()), Timestamp::now);
        articles.seed().await.expect("memory does not fail");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it listens"));
        let stop = CancellationToken::new();
        tokio::spawn(http::run(listener, http::router(articles), stop.clone()));
        let client = articles::load::client().expect("a client");
        Self { url, client, _stop: stop.drop_guard() }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        (status, answer.json().await.expect("every answer is JSON"))
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        self.ask(Method::POST, path, body).await
    }
}

#[tokio::test]
async fn r7_04_a_like_answers_with_the_new_count() {
    let api = Api::start().await;
    let (status, like) = api.post("/articles/1/like", None).await;
    assert_eq!((status, &like["likes"]), (StatusCode::OK, &json!(4)));
    let liked_at = like["liked_at"].as_str().unwrap();
    assert!(liked_at.ends_with('Z') && liked_at.len() == "2026-01-02T03:04:05.000000000Z".len());
    assert_eq!(api.get("/articles/1").await.1["likes"], 4);
}

#[tokio::test]
async fn r7_04_what_is_wrong_with_a_request_is_said() {
    let api = Api::start().await;
    let article = |id: i64, content: &str| json!({"id": id, "author_id": 1, "content": content});
    let long = "x".repeat(CONTENT_BYTES_MAX + 1);
    for (method, path, body, expected) in [
        (Method::POST, "/articles/x/like", None, StatusCode::BAD_REQUEST),
        (Method::POST, "/articles/-1/like", None, StatusCode::BAD_REQUEST),
        (Method::POST, "/articles/%ff/like", None, StatusCode::BAD_REQUEST),
        (Method::GET, "/articles/%ff", None, StatusCode::BAD_REQUEST),
        (Method::GET, "/authors/%ff/likes", None, StatusCode::BAD_REQUEST),
        (Method::POST, "/articles/999/like", None, StatusCode::NOT_FOUND),
        (Method::GET, "/articles/999", None, StatusCode::NOT_FOUND),
        (Method::GET, "/articles/x", None, StatusCode::BAD_REQUEST),
        (Method::GET, "/nowhere", None, StatusCode::NOT_FOUND),
        (Method::GET, "/articles/1/like", None, StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "/articles", Some(article(1, "again")), StatusCode::CONFLICT),
        (Method::POST, "/articles", Some(article(0, "zero")), StatusCode::BAD_REQUEST),
        (Method::POST, "/articles", Some(article(9, "")), StatusCode::BAD_REQUEST),
        (Method::POST, "/articles", Some(article(9, &long)), StatusCode::BAD_REQUEST),
        (Method::POST, "/articles", Some(article(9, "a\0b")), StatusCode::BAD_REQUEST),
        (Method::PATCH, "/articles/1", Some(json!({"content": "a\0b"})), StatusCode::BAD_REQUEST),
        (Method::POST, "/articles", Some(json!({"id": 9})), StatusCode::BAD_REQUEST),
        (Method::POST, "/articles", None, StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Method::PATCH, "/articles/999", Some(json!({"content": "x"})), StatusCode::NOT_FOUND),
        (Method::GET, "/authors/1/likes?from=yesterday", None, StatusCode::BAD_REQUEST),
        (Method::GET, "/authors/x/likes", None, StatusCode::BAD_REQUEST),
    ] {
        let (status, answer) = api.ask(method.clone(), path, body).await;
        assert_eq!(status, expected, "{method} {path}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    }
    assert_eq!(api.get("/articles/1").await.1["likes"], 3, "and nothing changed");
    assert_eq!(api.get("/articles/9").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn r7_04_a_request_that_is_too_large_is_refused() {
    let api = Api::start().await;
    let huge = json!({"id": 9, "author_id": 1, "content": "x".repeat(1 << 20)});
    let (status, _) = api.post("/articles", Some(huge)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn r7_04_an_article_is_created_read_and_changed() {
    let api = Api::start().await;
    let new = json!({"id": 7, "author_id": 2, "content": "first"});
    let (status, created) = api.post("/articles", Some(new)).await;
    assert_eq!((status, &created["likes"]), (StatusCode::CREATED, &json!(0)));
    assert_eq!(api.get("/articles/7").await.1, created);
    let change = Some(json!({"content": "second"}));
    let (status, changed) = api.ask(Method::PATCH, "/articles/7", change).await;
    assert_eq!((status, &changed["content"]), (StatusCode::OK, &json!("second")));
    assert_eq!(changed["published_at"], created["published_at"]);
}

#[tokio::test]
async fn r7_04_an_authors_series_has_every_like() {
    let api = Api::start().await;
    assert_eq!(api.get("/authors/1/likes").await.1["total"], 0, "the 3 of before had no events");
    for _ in 0..5 {
        api.post("/articles/1/like", None).await;
    }
    let (status, series) = api.get("/authors/1/likes").await;
    assert_eq!((status, &series["total"]), (StatusCode::OK, &json!(5)));
    let points = series["authors"]["1"].as_array().unwrap();
    assert_eq!(points.iter().filter_map(Value::as_u64).sum::<u64>(), 5);
    let before = "/authors/1/likes?from=2020-01-01T00:00:00Z&until=2020-01-01T00:00:09%2B00:00";
    let (_, series) = api.get(before).await;
    assert_eq!((&series["total"], &series["stretches"]), (&json!(0), &json!(10)));
}

#[tokio::test]
async fn health_is_told() {
    let api = Api::start().await;
    let (status, ready) = api.get("/readyz").await;
    assert_eq!((status, &ready["ready"]), (StatusCode::OK, &json!(true)));
    let live = api.client.get(format!("{}/livez", api.url)).send().await.unwrap();
    assert_eq!(live.status(), StatusCode::OK);
}

//! The consumer as a process: what it keeps, what it acknowledges, and what it draws.

mod support;

use support::{Graph, Listener, Service, begins, replay};

/// A frame as a producer writes it, with so many likes.
async fn frame(likes: usize) -> String {
    let listener = Listener::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    // While its consumer is away likes are kept; a service that starts then sends them together.
    let service = Service::start_in(folder.path(), &[("test", "127.0.0.1:1")]).await;
    for _ in 0..likes {
        service.like(1).await;
    }
    service.stop().await;
    let _service = Service::start_in(folder.path(), &[("test", &listener.address())]).await;
    let frame = listener.frame().await;
    assert_eq!(frame.matches("author_id").count(), likes, "{frame}");
    frame
}

#[tokio::test]
async fn r7_08_the_same_batch_ten_times_is_applied_once_and_acknowledged_ten_times() {
    let (graph, frame) = (Graph::start().await, frame(3).await);
    let answers = replay(&graph.listen, &frame, 10).await;
    assert_eq!(answers.len(), 10);
    graph.has(3).await;
}

#[tokio::test]
async fn r7_08_a_killed_consumer_comes_back_with_what_it_acknowledged_and_knows_it() {
    let (mut graph, frame) = (Graph::start().await, frame(3).await);
    replay(&graph.listen, &frame, 1).await;
    graph.kill().await;
    graph.come_back().await;
    graph.has(3).await;
    // A batch from before is acknowledged, and changes nothing.
    replay(&graph.listen, &frame, 2).await;
    graph.has(3).await;
    let state = graph.state().await;
    assert_eq!(state["repeated"], 3, "{state}");
}

#[tokio::test]
async fn r7_08_what_is_not_kept_yet_is_not_acknowledged() {
    let (mut graph, frame) = (Graph::start().await, frame(3).await);
    // While somebody else writes to its file, the consumer cannot.
    let file = graph.folder.path().join("likes.db");
    let pool = sqlx::SqlitePool::connect(&format!("sqlite:{}", file.display())).await.unwrap();
    let lock = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let (listen, line) = (graph.listen.clone(), frame.clone());
    let mut answer = tokio::spawn(async move { replay(&listen, &line, 1).await });
    let early = tokio::time::timeout(std::time::Duration::from_millis(500), &mut answer).await;
    assert!(early.is_err(), "acknowledged before it was kept");
    lock.rollback().await.unwrap();
    assert_eq!(answer.await.unwrap().len(), 1);
    // From then on it may die at any time.
    graph.kill().await;
    graph.come_back().await;
    graph.has(3).await;
}

#[tokio::test]
async fn r7_08_likes_of_several_producers_are_kept_apart_and_counted_together() {
    let graph = Graph::start().await;
    let consumers = [("graph", graph.listen.as_str())];
    let (a, b) = (Service::start(&consumers).await, Service::start(&consumers).await);
    // The same article, the same places in their logs: two services.
    for _ in 0..5 {
        a.like(1).await;
        b.like(1).await;
    }
    graph.has(10).await;
    let state = graph.state().await;
    let sources = state["sources"].as_array().expect("sources");
    assert_eq!(sources.len(), 2, "{state}");
    assert!(sources.iter().all(|source| source["likes"] == 5), "{state}");
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn r7_08_several_authors_are_counted_apart() {
    let graph = Graph::start().await;
    let service = Service::start(&[("graph", &graph.listen)]).await;
    let article = serde_json::json!({ "id": 2, "author_id": 5, "content": "text" });
    let url = format!("{}/articles", service.url);
    service.client.post(url).json(&article).send().await.unwrap().error_for_status().unwrap();
    for article in [1, 2, 2] {
        service.like(article).await;
    }
    graph.has(3).await;
    let series: articles::series::Series =
        graph.get("/series.json?author=5").await.json().await.unwrap();
    assert_eq!(series.total, 2);
    assert_eq!(graph.state().await["authors"], serde_json::json!([[5, 2], [1, 1]]));
}

#[tokio::test]
async fn r7_08_what_is_no_like_is_refused_and_stops_nobody() {
    let (graph, frame) = (Graph::start().await, frame(2).await);
    let broken = frame.replacen("\"author_id\":1", "\"author_id\":\"?\"", 1);
    assert_ne!(broken, frame, "the frame holds the event as JSON: {frame}");
    assert_eq!(replay(&graph.listen, &broken, 1).await.len(), 1, "acknowledged all the same");
    graph.has(1).await;
    assert_eq!(graph.state().await["refused"], 1);
}

#[tokio::test]
async fn r7_08_strangers_do_not_disturb() {
    use tokio::io::AsyncWriteExt;
    let (graph, frame) = (Graph::start().await, frame(1).await);
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"{\"batch\":1}\n", b"\xff\xfe\n", b"{"] {
        let mut stream = tokio::net::TcpStream::connect(&graph.listen).await.unwrap();
        stream.write_all(words).await.unwrap();
    }
    replay(&graph.listen, &frame, 1).await;
    graph.has(1).await;
}

#[tokio::test]
async fn r7_09_the_end_draws_the_graph_and_so_does_a_request() {
    let (mut graph, frame) = (Graph::start().await, frame(4).await);
    replay(&graph.listen, &frame, 1).await;
    let written = draw(&graph).await;
    assert_eq!(written["written"].as_array().map(Vec::len), Some(3), "{written}");
    let file = |name: &str| graph.folder.path().join(name);
    begins(file("data.png"), b"\x89PNG");
    for name in ["data.png", "data.svg", "data.csv"] {
        std::fs::remove_file(file(name)).unwrap();
    }
    graph.stop().await;
    let file = |name: &str| graph.folder.path().join(name);
    begins(file("data.png"), b"\x89PNG");
    begins(file("data.svg"), b"<svg");
    begins(file("data.csv"), b"second_utc,likes,author_1\n");
    let table = std::fs::read_to_string(file("data.csv")).unwrap();
    let likes =
        table.lines().skip(1).filter_map(|line| line.split(',').nth(1)?.parse::<u64>().ok());
    assert_eq!(likes.sum::<u64>(), 4, "{table}");
}

async fn draw(graph: &Graph) -> serde_json::Value {
    let client = articles::load::client().expect("the graph answers");
    client
        .post(format!("{}/draw", graph.url()))
        .send()
        .await
        .expect("the graph answers")
        .json()
        .await
        .expect("the graph answers")
}

#[tokio::test]
async fn r7_09_the_page_is_told_of_likes_as_they_arrive() {
    let mut graph = Graph::start().await;
    let service = Service::start(&[("graph", &graph.listen)]).await;
    let mut stream = graph.get("/stream?last=30").await;
    service.like(1).await;
    let mut text = String::new();
    let reading = async {
        while !text.contains("\"total\":1,") {
            let chunk = stream.chunk().await.unwrap().expect("the stream goes on");
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
    };
    tokio::time::timeout(support::PATIENCE, reading).await.expect("told in time");
    let page = graph.get("/").await;
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'self'"), "{policy}");
    let page = page.text().await.unwrap();
    assert!(!page.contains("http://") && !page.contains("https://"), "nothing from elsewhere");
    // A page that is still open keeps nobody from ending.
    graph.stop().await;
}

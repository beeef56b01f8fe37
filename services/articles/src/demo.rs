//! Runs the service, a consumer that is stopped for a while, and the load script with its check in
//! one process, on free ports and temporary files.

use std::{
    io::{self, Write},
    path::Path,
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{args, domain::ArticleId, graph::Graph, load, serve::Server};

/// When the consumer goes away, and for how long, from the beginning of the likes.
const AWAY_AFTER: Duration = Duration::from_secs(4);
const AWAY_FOR: Duration = Duration::from_secs(3);
/// Time between two likes of the second article.
const OTHER_EVERY: Duration = Duration::from_millis(130);

/// Runs the demo and prints its events; returns whether every check passed.
///
/// # Errors
/// When something cannot be started.
pub async fn run(args: &args::Demo, stop: CancellationToken) -> anyhow::Result<bool> {
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let mut graph_args = graph_args(folder.path());
    let consumer = Consumer::start(&graph_args).await?;
    // When it comes back it must be where it was.
    graph_args.listen = consumer.listen;
    graph_args.http = consumer.http;

    let serve_args = args::Serve {
        listen: ([127, 0, 0, 1], 0).into(),
        database: format!("sqlite:{}", folder.path().join("articles.db").display()),
        consumers: vec![
            format!("graph=tcp://{}", consumer.listen).parse().map_err(anyhow::Error::msg)?,
        ],
        ack_timeout: Duration::from_secs(4),
    };
    let server = Server::open(&serve_args).await?;
    let url = format!("http://{}", server.address()?);
    let page = format!("http://{}", consumer.http);
    let serving = CancellationToken::new();
    let served = tokio::spawn(server.run(serving.clone()));
    say(&format!("articles at {url}\nthe graph, live, at {page}\n"))?;

    let load_args = args::Load {
        url: url.clone(),
        graphs: vec![page.clone()],
        article: 1,
        wait: Duration::from_secs(60),
        out: args.out.clone(),
    };
    let others = CancellationToken::new();
    let other = tokio::spawn(like_another(url, others.clone()));
    let mut out = io::stdout();
    let loaded =
        async { tokio::join!(load::run(&load_args, &mut out), interrupted(consumer, &graph_args)) };
    let Some((holds, consumer)) = stop.run_until_cancelled(loaded).await else {
        bail!("stopped before anything was checked");
    };
    others.cancel();
    let (holds, consumer) = (holds?, consumer?);
    other.await??;
    say(&format!(
        "The consumer was away for three of the ten seconds, and {} shows nothing of it.",
        args.out.join("data.png").display()
    ))?;
    if args.stay {
        say(&format!("The page stays at {page} until Ctrl-C."))?;
        stop.cancelled().await;
    }
    consumer.stop().await?;
    serving.cancel();
    served.await??;
    Ok(holds)
}

fn graph_args(folder: &Path) -> args::Graph {
    args::Graph {
        listen: ([127, 0, 0, 1], 0).into(),
        http: ([127, 0, 0, 1], 0).into(),
        database: format!("sqlite:{}", folder.join("likes.db").display()),
        out: folder.to_owned(),
    }
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{text}")?;
    out.flush()
}

/// A consumer that runs.
struct Consumer {
    listen: std::net::SocketAddr,
    http: std::net::SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<Vec<std::path::PathBuf>>>,
}

impl Consumer {
    async fn start(args: &args::Graph) -> anyhow::Result<Self> {
        let graph = Graph::open(args).await?;
        let (listen, http) = (graph.consumer_address(), graph.page_address()?);
        let stop = CancellationToken::new();
        let task = tokio::spawn(graph.run(stop.clone()));
        Ok(Self { listen, http, stop, task })
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.task.await??;
        Ok(())
    }
}

/// Takes the consumer away in the middle, and brings it back with the same replica.
async fn interrupted(consumer: Consumer, args: &args::Graph) -> anyhow::Result<Consumer> {
    sleep(AWAY_AFTER).await;
    consumer.stop().await?;
    say("           (the consumer is stopped)")?;
    sleep(AWAY_FOR).await;
    say("           (the consumer is started again)")?;
    Consumer::start(args).await
}

/// Likes an article of another author at a steady pace, so that the page has two.
async fn like_another(url: String, stop: CancellationToken) -> anyhow::Result<()> {
    let client = load::client()?;
    let id = ArticleId::try_from(2)?;
    let article = serde_json::json!({ "id": id, "author_id": 2, "content": "Like me too." });
    client.post(format!("{url}/articles")).json(&article).send().await?.error_for_status()?;
    while stop.run_until_cancelled(sleep(OTHER_EVERY)).await.is_some() {
        client.post(format!("{url}/articles/{id}/like")).send().await?.error_for_status()?;
    }
    Ok(())
}

//! The built program as processes, a consumer that only listens, and a proxy that mistreats
//! acknowledgements.

#![allow(dead_code, reason = "each test file uses a part")]

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use articles::series::Series;
use reqwest::Client;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use posthaste_fixtures::Port;
pub(crate) use posthaste_fixtures::{PATIENCE, eventually};

/// A process of the program; killed on drop.
pub(crate) struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(crate) fn start(folder: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_articles"))
            .args(args)
            .current_dir(folder)
            .env("ARTICLES_LOG", "error")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, lines }
    }

    /// Waits for a line that begins so, and returns the rest of it.
    pub(crate) async fn line(&mut self, start: &str) -> String {
        let reading = async {
            while let Ok(Some(line)) = self.lines.next_line().await {
                if let Some(rest) = line.strip_prefix(start) {
                    return rest.to_owned();
                }
            }
            panic!("the program ended without a line `{start}`")
        };
        timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("no line `{start}`"))
    }

    /// `kill -9`.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("it runs");
    }

    /// SIGTERM, then waits for the end.
    pub(crate) async fn stop(mut self) {
        let id = self.child.id().expect("it runs").to_string();
        let told = Command::new("kill").args(["-TERM", &id]).status().await;
        assert!(told.expect("there is a kill").success());
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it ends in time");
        assert!(status.expect("it ends").success());
    }

    /// Waits for the end; whether it went well, and all it said.
    pub(crate) async fn end(mut self) -> (Option<i32>, String) {
        let reading = async {
            let mut text = String::new();
            while let Ok(Some(line)) = self.lines.next_line().await {
                text.push_str(&line);
                text.push('\n');
            }
            (self.child.wait().await.expect("it ends").code(), text)
        };
        timeout(PATIENCE, reading).await.expect("it ends in time")
    }
}

/// `articles graph` that can go away and come back.
pub(crate) struct Graph {
    pub(crate) folder: TempDir,
    pub(crate) listen: String,
    pub(crate) page: String,
    /// For as long as it may come back.
    _held: [Port; 2],
    program: Option<Program>,
    client: Client,
}

impl Graph {
    pub(crate) async fn start() -> Self {
        let held = [Port::hold(), Port::hold()];
        let mut graph = Self {
            folder: tempfile::tempdir().expect("a folder"),
            listen: held[0].address().to_string(),
            page: held[1].address().to_string(),
            _held: held,
            program: None,
            client: articles::load::client().expect("a client"),
        };
        graph.come_back().await;
        graph
    }

    /// Starts where it was before, on the same replica.
    pub(crate) async fn come_back(&mut self) {
        let args = ["graph", "--listen", &self.listen, "--http", &self.page];
        let mut program = Program::start(self.folder.path(), &args);
        self.listen = program.line("likes at tcp://").await;
        self.page = program.line("page at http://").await;
        self.program = Some(program);
    }

    pub(crate) async fn kill(&mut self) {
        self.program.take().expect("it runs").kill().await;
    }

    pub(crate) async fn stop(&mut self) {
        self.program.take().expect("it runs").stop().await;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.page)
    }

    pub(crate) async fn series(&self) -> Series {
        self.get("/series.json").await.json().await.expect("a series")
    }

    pub(crate) async fn get(&self, path: &str) -> reqwest::Response {
        let answer = self.client.get(format!("{}{path}", self.url())).send().await;
        answer.expect("an answer").error_for_status().expect("a good answer")
    }

    pub(crate) async fn has(&self, likes: u64) {
        eventually(&format!("{likes} likes at the consumer"), async || {
            (self.series().await.total >= likes).then_some(())
        })
        .await;
        assert_eq!(self.series().await.total, likes, "and not one more");
    }

    pub(crate) async fn state(&self) -> serde_json::Value {
        self.get("/state.json").await.json().await.expect("numbers")
    }
}

/// `articles serve` on a file of its own.
pub(crate) struct Service {
    pub(crate) url: String,
    pub(crate) client: Client,
    program: Program,
    /// Where it keeps its articles, unless the test does.
    folder: Option<TempDir>,
}

impl Service {
    pub(crate) async fn start(consumers: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let service = Self::start_in(folder.path(), consumers).await;
        Self { folder: Some(folder), ..service }
    }

    /// On another database than a file.
    pub(crate) async fn start_on(database: &str, consumer: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let consumer = format!("graph=tcp://{consumer}");
        let args =
            ["serve", "--listen=127.0.0.1:0", "--database", database, "--consumer", &consumer];
        let mut program = Program::start(folder.path(), &args);
        let url = program.line("articles at ").await;
        let client = articles::load::client().expect("a client");
        Self { url, folder: Some(folder), client, program }
    }

    pub(crate) async fn start_in(folder: &Path, consumers: &[(&str, &str)]) -> Self {
        let consumers: Vec<String> =
            consumers.iter().map(|(name, at)| format!("--consumer={name}=tcp://{at}")).collect();
        Self::start_with(folder, &consumers.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    /// With more arguments.
    pub(crate) async fn start_with(folder: &Path, more: &[&str]) -> Self {
        let mut args = vec!["serve", "--listen=127.0.0.1:0", "--ack-timeout=1"];
        args.extend(more);
        let mut program = Program::start(folder, &args);
        let url = program.line("articles at ").await;
        Self { url, folder: None, client: articles::load::client().expect("a client"), program }
    }

    pub(crate) async fn like(&self, article: i64) -> u64 {
        let url = format!("{}/articles/{article}/like", self.url);
        let answer = self.client.post(url).send().await.expect("an answer");
        let answer: serde_json::Value =
            answer.error_for_status().expect("a like").json().await.expect("JSON");
        answer["likes"].as_u64().expect("a number")
    }

    pub(crate) async fn likes(&self, article: i64) -> u64 {
        let answer = self.client.get(format!("{}/articles/{article}", self.url)).send().await;
        let answer: serde_json::Value = answer.expect("an answer").json().await.expect("JSON");
        answer["likes"].as_u64().expect("a number")
    }

    pub(crate) async fn stop(self) {
        self.program.stop().await;
    }
}

/// A consumer that listens and never answers: for looking at what is sent.
pub(crate) struct Listener {
    listener: TcpListener,
}

impl Listener {
    pub(crate) async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.expect("a free port") }
    }

    pub(crate) fn address(&self) -> String {
        self.listener.local_addr().expect("it listens").to_string()
    }

    /// The first line of the next connection.
    pub(crate) async fn frame(&self) -> String {
        let reading = async {
            let (stream, _) = self.listener.accept().await.expect("a connection");
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).await.expect("a line");
            line
        };
        timeout(PATIENCE, reading).await.expect("a frame in time")
    }
}

/// Sends a frame to a consumer again and again on one connection; the answers.
pub(crate) async fn replay(consumer: &str, frame: &str, times: usize) -> Vec<String> {
    let mut stream = TcpStream::connect(consumer).await.expect("it listens");
    let (read, mut write) = stream.split();
    let mut answers = Vec::new();
    let mut lines = BufReader::new(read).lines();
    for _ in 0..times {
        write.write_all(frame.as_bytes()).await.expect("it reads");
        let answer = timeout(PATIENCE, lines.next_line()).await.expect("an answer in time");
        answers.push(answer.expect("it is still there").expect("an answer"));
    }
    answers
}

/// Passes everything to a consumer, and drops, doubles or splits what it answers, in turn.
pub(crate) struct FaultyAcks {
    pub(crate) address: SocketAddr,
    /// How often each of the three happened.
    pub(crate) faults: Arc<[AtomicUsize; 3]>,
}

impl FaultyAcks {
    pub(crate) async fn start(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let faults: Arc<[AtomicUsize; 3]> = Arc::default();
        let counted = Arc::clone(&faults);
        tokio::spawn(async move {
            let lines = Arc::new(AtomicUsize::new(0));
            while let Ok((client, _)) = listener.accept().await {
                // The consumer may be down: then the producer sees a closed connection.
                if let Ok(server) = TcpStream::connect(&target).await {
                    let (lines, faults) = (Arc::clone(&lines), Arc::clone(&counted));
                    tokio::spawn(pass(client, server, lines, faults));
                }
            }
        });
        Self { address, faults }
    }

    pub(crate) fn each_happened(&self) {
        for (fault, count) in ["dropped", "doubled", "split"].iter().zip(&*self.faults) {
            assert!(count.load(Ordering::Relaxed) > 0, "no acknowledgement was {fault}");
        }
    }
}

async fn pass(
    client: TcpStream,
    server: TcpStream,
    lines: Arc<AtomicUsize>,
    faults: Arc<[AtomicUsize; 3]>,
) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = forward(from_client, to_server) => {}
        () = back(from_server, to_client, &lines, &faults) => {}
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

async fn back(
    from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    count: &AtomicUsize,
    faults: &[AtomicUsize; 3],
) {
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let fault = count.fetch_add(1, Ordering::Relaxed) % 3;
        let line = format!("{line}\n");
        let pieces: Vec<&[u8]> = match fault {
            0 => Vec::new(),
            1 => vec![line.as_bytes(), line.as_bytes()],
            _ => line.as_bytes().chunks(1).collect(),
        };
        for piece in pieces {
            if to.write_all(piece).await.is_err() || to.flush().await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
        faults[fault].fetch_add(1, Ordering::Relaxed);
    }
}

/// A file that is there and begins so.
pub(crate) fn begins(path: PathBuf, start: &[u8]) {
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(bytes.starts_with(start), "{}", path.display());
}

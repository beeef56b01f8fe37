//! The load script: ten seconds of likes in a known shape, then a look at both ends. The verdict is
//! computed from what the service and the consumers say, never assumed.

use std::{collections::BTreeMap, fmt, io::Write, path::Path, time::Duration};

use anyhow::{Context, bail, ensure};
use jiff::Timestamp;
use reqwest::Client;
use serde::{Deserialize, de::DeserializeOwned};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    args,
    domain::{ArticleId, AuthorId},
    http::LikeAnswer,
    series::{Series, second},
};

/// Likes in each of ten seconds.
pub const SCHEDULE: [u64; 10] = [4, 6, 10, 8, 12, 13, 6, 3, 9, 3];

/// Least time between two likes.
const LIKE_EVERY: Duration = Duration::from_millis(1);
/// How far into its second a slot begins: room for the clock's and the machine's hesitation.
const SLOT_OFFSET: Duration = Duration::from_millis(50);
/// Time between two looks at a consumer.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// What of an article is looked at.
#[derive(Deserialize)]
struct Seen {
    author_id: AuthorId,
    likes: u64,
}

/// A client for the service and its consumers.
///
/// # Errors
/// When the machine cannot make one.
pub fn client() -> anyhow::Result<Client> {
    // The client wants to know who does cryptography, even where there is none to do. An error says
    // that the process has chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(Client::builder().no_proxy().timeout(ANSWER_TIMEOUT).build()?)
}

/// One check: an expected and an actual value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub found: String,
}

impl Check {
    fn new(what: impl Into<String>, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self { what: what.into(), expected: expected.to_string(), found: found.to_string() }
    }

    /// Whether the check passed.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.expected == self.found
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.holds() {
            true => write!(f, "  ✓ {:<44} {}", self.what, self.found),
            false => write!(f, "  ✗ {:<44} {}, not {}", self.what, self.found, self.expected),
        }
    }
}

/// Runs the script and prints its checks; returns whether all passed.
///
/// # Errors
/// When the service or a consumer cannot be asked.
pub async fn run(args: &args::Load, out: &mut impl Write) -> anyhow::Result<bool> {
    let client = client()?;
    let article = ArticleId::try_from(args.article)?;
    let url = format!("{}/articles/{article}", args.url.trim_end_matches('/'));
    let before: Seen = get(&client, &url).await.context("is `articles serve` running?")?;
    let mut graphs = Vec::new();
    for graph in &args.graphs {
        let graph = Consumer::look(&client, graph, before.author_id).await;
        graphs.push(graph.context("is `articles graph` running?")?);
    }
    writeln!(out, "article {article} has {} likes; 74 more within ten seconds:", before.likes)?;
    let landed = like(&client, &format!("{url}/like"), out).await?;

    let after: Seen = get(&client, &url).await?;
    let total: u64 = SCHEDULE.iter().sum();
    let mut checks =
        vec![Check::new(format!("likes of article {article}"), before.likes + total, after.likes)];
    let span = Span::of(&landed);
    let author = before.author_id;
    let series =
        format!("{}/authors/{author}/likes?{}", args.url.trim_end_matches('/'), span.query());
    let series: Series = get(&client, &series).await?;
    checks.push(Check::new(
        "the service's series, by second",
        line(&span.counts),
        line(&series.totals()),
    ));
    for graph in &graphs {
        checks.extend(graph.checks(&client, author, total, &span, args.wait).await?);
    }
    if let Some(graph) = graphs.first() {
        let written = write(&client, graph, author, &span, &args.out).await?.join(" ");
        checks.push(Check::new("graph written", FILES.map(|(name, _)| name).join(" "), written));
    }
    for check in &checks {
        writeln!(out, "{check}")?;
    }
    late(&span, out)?;
    let holds = checks.iter().all(Check::holds);
    writeln!(
        out,
        "\n{}",
        if holds { "Everything arrived, once." } else { "This is not as it should be." }
    )?;
    Ok(holds)
}

/// Likes by the schedule, one in a millisecond at most; returns in which second each was counted.
async fn like(client: &Client, url: &str, out: &mut impl Write) -> anyhow::Result<Vec<Landed>> {
    let mut answers = JoinSet::new();
    let (start, first) = next_second();
    for (slot, likes) in (0u32..).zip(SCHEDULE) {
        sleep_until(start + Duration::from_secs(slot.into())).await;
        for _ in 0..likes {
            let request = client.post(url);
            answers.spawn(async move {
                let answer: LikeAnswer = read(request).await?;
                let at: Timestamp = answer.liked_at.parse()?;
                anyhow::Ok(Landed { planned: first + i64::from(slot), second: second(at) })
            });
            sleep(LIKE_EVERY).await;
        }
        writeln!(
            out,
            "  {} {:<13} {likes}",
            clock(first + i64::from(slot)),
            "♥".repeat(likes as usize)
        )?;
        out.flush()?;
    }
    let mut landed = Vec::new();
    while let Some(answer) = answers.join_next().await {
        // Not tried again, because it is unknown whether the like was counted.
        landed.push(answer?.context("a like failed")?);
    }
    writeln!(out)?;
    Ok(landed)
}

/// When the next second that is not about to begin begins, as an instant to sleep to and in Unix time.
fn next_second() -> (Instant, i64) {
    let (now, instant) = (Timestamp::now(), Instant::now());
    let first = second(now) + 1;
    let first = if now.subsec_millisecond() > 900 { first + 1 } else { first };
    let begin = Timestamp::from_second(first).expect("near now");
    let wait = begin.duration_since(now).unsigned_abs();
    (instant + wait + SLOT_OFFSET, first)
}

/// A like that was counted.
#[derive(Clone, Copy, Debug)]
struct Landed {
    /// The second of its slot.
    planned: i64,
    /// The second the service counted it in.
    second: i64,
}

/// The seconds of a run, and what is expected in them.
struct Span {
    first: i64,
    last: i64,
    /// Likes of every second.
    counts: Vec<u64>,
    /// Likes that were counted in a later second than planned.
    late: usize,
}

impl Span {
    fn of(landed: &[Landed]) -> Self {
        let late = landed.iter().filter(|like| like.second != like.planned).count();
        let seconds = landed.iter().flat_map(|like| [like.planned, like.second]);
        let (first, last) = (seconds.clone().min().unwrap_or(0), seconds.max().unwrap_or(0));
        let mut counts: BTreeMap<i64, u64> = (first..=last).map(|second| (second, 0)).collect();
        for like in landed {
            *counts.entry(like.second).or_default() += 1;
        }
        Self { first, last, counts: counts.into_values().collect(), late }
    }

    fn query(&self) -> String {
        let text =
            |second| Timestamp::from_second(second).map(|at| at.to_string()).unwrap_or_default();
        format!("from={}&until={}", text(self.first), text(self.last))
    }
}

/// A consumer that is looked at.
struct Consumer {
    url: String,
    /// The author's likes it had before.
    before: u64,
}

impl Consumer {
    async fn look(client: &Client, url: &str, author: AuthorId) -> anyhow::Result<Self> {
        let url = url.trim_end_matches('/').to_owned();
        let before = likes_at(client, &url, author).await?;
        Ok(Self { url, before })
    }

    /// Waits until it has everything, for as long as is allowed, then looks.
    async fn checks(
        &self,
        client: &Client,
        author: AuthorId,
        total: u64,
        span: &Span,
        wait: Duration,
    ) -> anyhow::Result<Vec<Check>> {
        let until = Instant::now() + wait;
        // A consumer that is just being restarted does not answer; that is no reason to give up.
        let mut found = likes_at(client, &self.url, author).await;
        while !matches!(found, Ok(likes) if likes >= self.before + total) && Instant::now() < until
        {
            sleep(LOOK_EVERY).await;
            found = likes_at(client, &self.url, author).await;
        }
        let series = format!("{}/series.json?author={author}&{}", self.url, span.query());
        let series: Series = get(client, &series).await?;
        let host = self.url.trim_start_matches("http://");
        Ok(vec![
            Check::new(format!("new likes at {host}"), total, found?.saturating_sub(self.before)),
            Check::new(
                format!("series at {host}, by second"),
                line(&span.counts),
                line(&series.totals()),
            ),
        ])
    }
}

async fn likes_at(client: &Client, url: &str, author: AuthorId) -> anyhow::Result<u64> {
    let series: Series = get(client, &format!("{url}/series.json?author={author}")).await?;
    Ok(series.total)
}

/// The files of a graph, and how each begins.
const FILES: [(&str, &[u8]); 3] =
    [("data.png", b"\x89PNG"), ("data.svg", b"<svg"), ("data.csv", b"second_utc,")];

/// Writes the graph of the run as the first consumer draws it; the files that are what they should be.
async fn write(
    client: &Client,
    graph: &Consumer,
    author: AuthorId,
    span: &Span,
    out: &Path,
) -> anyhow::Result<Vec<&'static str>> {
    let mut written = Vec::new();
    for (name, start) in FILES {
        let url = format!("{}/{name}?author={author}&{}", graph.url, span.query());
        let answer = client.get(&url).send().await?;
        ensure!(answer.status().is_success(), "{url} answers {}", answer.status());
        let bytes = answer.bytes().await?;
        let path = out.join(name);
        std::fs::write(&path, &bytes)
            .with_context(|| format!("cannot write {}", path.display()))?;
        if bytes.starts_with(start) {
            written.push(name);
        }
    }
    Ok(written)
}

fn late(span: &Span, out: &mut impl Write) -> anyhow::Result<()> {
    if span.late == 0 {
        writeln!(out, "  ✓ {:<44} {}", "as scheduled", line(&SCHEDULE))?;
    } else {
        let late = span.late;
        writeln!(
            out,
            "  ! {late} likes were counted in a later second than planned: the machine is busy"
        )?;
    }
    Ok(())
}

async fn get<T: DeserializeOwned>(client: &Client, url: &str) -> anyhow::Result<T> {
    read(client.get(url)).await
}

async fn read<T: DeserializeOwned>(request: reqwest::RequestBuilder) -> anyhow::Result<T> {
    let answer = request.send().await?;
    let (url, status) = (answer.url().clone(), answer.status());
    if !status.is_success() {
        bail!("{url} answers {status}");
    }
    answer.json().await.with_context(|| format!("{url} answers something else than expected"))
}

fn clock(second: i64) -> String {
    Timestamp::from_second(second).map(|at| at.strftime("%H:%M:%S").to_string()).unwrap_or_default()
}

fn line(counts: &[u64]) -> String {
    counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use axum::routing::get as get_route;

    use super::*;

    #[test]
    fn r7_10_the_schedule_has_74_likes_in_ten_seconds() {
        assert_eq!(SCHEDULE.len(), 10);
        assert_eq!(SCHEDULE.iter().sum::<u64>(), 74);
    }

    #[test]
    fn likes_that_land_late_are_expected_where_they_landed() {
        let like = |planned, second| Landed { planned, second };
        let span = Span::of(&[like(10, 10), like(10, 11), like(12, 12)]);
        assert_eq!((span.first, span.last, span.late), (10, 12, 1));
        assert_eq!(span.counts, [1, 1, 1]);
    }

    /// Somebody has put another replica in its place meanwhile.
    #[tokio::test]
    async fn a_consumer_with_fewer_likes_than_before_has_none_that_are_new() {
        let empty = serde_json::to_value(Series::empty()).unwrap();
        let router =
            axum::Router::new().route("/series.json", get_route(async || axum::Json(empty)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await });
        let (author, span) = (AuthorId::try_from(1).unwrap(), Span::of(&[]));
        let consumer = Consumer { url, before: 5 };
        let client = client().unwrap();
        let checks = consumer.checks(&client, author, 74, &span, Duration::ZERO).await.unwrap();
        assert!(checks[0].to_string().contains("0, not 74"), "{}", checks[0]);
    }

    #[test]
    fn a_check_that_fails_says_what_was_expected() {
        let check = Check::new("likes", 77, 76);
        assert!(!check.holds());
        assert!(check.to_string().contains("76, not 77"), "{check}");
    }
}

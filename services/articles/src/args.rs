//! The command line.

use std::{net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use clap::{Args, Parser, Subcommand};
use posthaste::tcp::Frames;

/// Articles that can be liked, and a graph of the likes. Use three terminals, without
/// configuration: `articles graph`, `articles serve`, `articles load`. Or `articles demo`, which
/// runs all three.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve articles over HTTP, and send every like to consumers
    Serve(Serve),
    /// Receive likes, keep them, and draw them: a live page, PNG, SVG and CSV
    Graph(Graph),
    /// Like an article 74 times in ten seconds, then check that every like arrived
    Load(Load),
    /// Run service, consumer and load in one process, and stop the consumer for a while
    Demo(Demo),
}

/// Options of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18889")]
    pub listen: SocketAddr,
    /// Where articles are kept: memory:, sqlite:FILE or postgres://...
    #[arg(
        long,
        value_name = "URL",
        env = "ARTICLES_DATABASE",
        hide_env_values = true,
        default_value = "sqlite:articles.db"
    )]
    pub database: String,
    /// A consumer, as name=tcp://host:port; repeat it for each consumer. The progress is kept under
    /// the name, so do not change it. A consumer that uses the original's frames is
    /// name=tcp://host:port?frames=original
    #[arg(
        long = "consumer",
        value_name = "NAME=URL",
        default_value = "graph=tcp://127.0.0.1:13311"
    )]
    pub consumers: Vec<Consumer>,
    /// How long to wait for a consumer's acknowledgement before its batch is sent again
    #[arg(long, value_name = "SECONDS", default_value = "4", value_parser = seconds)]
    pub ack_timeout: Duration,
}

/// Options of `graph`.
#[derive(Debug, Args)]
pub struct Graph {
    /// Address to receive likes on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:13311")]
    pub listen: SocketAddr,
    /// Address of the page
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:13312")]
    pub http: SocketAddr,
    /// Where likes are kept: sqlite:FILE
    #[arg(long, value_name = "URL", default_value = "sqlite:likes.db")]
    pub database: String,
    /// Folder for data.png, data.svg and data.csv, which are written at the end and on POST /draw
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub out: PathBuf,
}

/// Options of `load`.
#[derive(Debug, Args)]
pub struct Load {
    /// Where `articles serve` listens
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:18889")]
    pub url: String,
    /// Address of a consumer's page; repeat it for each consumer
    #[arg(long = "graph", value_name = "URL", default_value = "http://127.0.0.1:13312")]
    pub graphs: Vec<String>,
    /// Which article to like
    #[arg(long, value_name = "ID", default_value = "1")]
    pub article: i64,
    /// How long to wait until consumers have every like
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub wait: Duration,
    /// Folder for the graph of these likes
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub out: PathBuf,
}

/// Options of `demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Folder for the graph
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub out: PathBuf,
    /// Serve the page until Ctrl-C
    #[arg(long)]
    pub stay: bool,
}

/// A consumer: its name, which is its route's, and where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// The name under which its progress is kept.
    pub name: String,
    /// `tcp://host:port`.
    pub url: String,
    /// The frames that it uses.
    pub frames: Frames,
}

impl FromStr for Consumer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (name, url) = text.split_once('=').filter(|(name, _)| !name.is_empty())?;
            let (url, frames) = url.split_once("?frames=").unwrap_or((url, "native"));
            let (_, frames) = Frames::ALL.into_iter().find(|(name, _)| *name == frames)?;
            let url = Some(url).filter(|url| url.starts_with("tcp://"))?;
            Some(Self { name: name.to_owned(), url: url.to_owned(), frames })
        };
        read().ok_or_else(|| {
            "must be like graph=tcp://127.0.0.1:13311, or with ?frames=original after it".to_owned()
        })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "must be a number of seconds, more than 0 and at most 3600".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if seconds > 0.0 && seconds <= 3600.0 {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(wrong())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn nothing_has_to_be_configured() {
        for command in ["serve", "graph", "load", "demo"] {
            Cli::try_parse_from(["articles", command]).unwrap();
        }
    }

    #[test]
    fn r7_11_consumers_are_given_once_each() {
        let args = ["articles", "serve", "--consumer", "a=tcp://h:1", "--consumer", "b=tcp://h:2"];
        let Command::Serve(serve) = Cli::try_parse_from(args).unwrap().command else {
            panic!("serve was asked for")
        };
        let names: Vec<_> = serve.consumers.iter().map(|consumer| &consumer.name).collect();
        assert_eq!(names, ["a", "b"]);
        let original: Consumer = "a=tcp://h:1?frames=original".parse().unwrap();
        assert_eq!((&*original.url, original.frames), ("tcp://h:1", Frames::Original));
        assert_eq!(serve.consumers[0].frames, Frames::Native);
        for wrong in ["tcp://h:1", "=tcp://h:1", "a=http://h:1", "a", "a=tcp://h:1?frames=other"] {
            assert!(wrong.parse::<Consumer>().is_err(), "{wrong}");
        }
    }
}

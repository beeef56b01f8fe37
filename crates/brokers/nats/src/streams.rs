//! Streams: which one stores a subject, and whether it keeps the order of what is pipelined to it.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_nats::{
    ServerInfo,
    jetstream::{
        context::{GetStreamByNameErrorKind, GetStreamErrorKind, RequestErrorKind},
        stream::{DiscardPolicy, Info},
    },
};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::{connect::Session, outcome::Trouble, subject};

/// What is known of a stream is asked for again after this.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// Streams remembered.
const KNOWN_MAX: usize = 256;
/// Longest wait for what only makes things faster.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// How messages of a key may go to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// One by one: the stream may refuse one and take the next.
    OneByOne,
    /// Together, if none is larger than this.
    Together { bytes_max: usize },
}

/// What a session knows of the streams.
pub(crate) struct Streams {
    /// One server does it all. In a cluster a stream has times without a leader, in which what is
    /// published to it is lost, while the connection stays and what follows is stored.
    is_one_server: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    has_account_limits: bool,
    careful_until: Option<Instant>,
    known: Vec<Known>,
}

struct Known {
    subjects: Vec<String>,
    pace: Pace,
    until: Instant,
}

impl Streams {
    pub(crate) fn new(server: ServerInfo) -> Self {
        let is_one_server = server.cluster.is_none() && server.jetstream;
        Self { is_one_server, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream had no room, or cannot be looked at: for a while nothing is pipelined to any.
    pub(crate) fn be_careful(&self) {
        self.state().careful_until = Some(Instant::now() + KNOWN_FOR);
    }

    /// A limit below zero is none. Accounts with tiers have limits in each of them.
    fn account(&self, account: &Value) {
        let has_limit = |name| account["limits"][name].as_i64().is_some_and(|limit| limit >= 0);
        self.state().has_account_limits = has_limit("max_storage")
            || has_limit("max_memory")
            || account["tiers"].as_object().is_some_and(|tiers| !tiers.is_empty());
    }

    /// The pace for a subject, if it need not be asked for.
    fn known(&self, subject: &str) -> Option<Pace> {
        let now = Instant::now();
        let mut state = self.state();
        let is_careful = state.careful_until.is_some_and(|until| now < until);
        if !self.is_one_server || state.has_account_limits || is_careful {
            return Some(Pace::OneByOne);
        }
        state.known.retain(|known| now < known.until);
        let has = |known: &&Known| known.subjects.iter().any(|own| subject::overlap(own, subject));
        state.known.iter().find(has).map(|known| known.pace)
    }

    fn remember(&self, info: &Info) -> Pace {
        let pace = pace(info);
        let mut state = self.state();
        if state.known.len() >= KNOWN_MAX {
            state.known.clear();
        }
        let until = Instant::now() + KNOWN_FOR;
        state.known.push(Known { subjects: info.config.subjects.clone(), pace, until });
        pace
    }
}

/// A stream that is told to refuse what is new when it is full refuses one message and, when a
/// consumer has made room, takes the next.
fn pace(info: &Info) -> Pace {
    let config = &info.config;
    let has_limit = config.max_messages > 0 || config.max_bytes > 0;
    let may_refuse = config.discard == DiscardPolicy::New && has_limit
        || config.discard_new_per_subject
        || config.sealed;
    let has_peers = info.cluster.as_ref().is_some_and(|cluster| !cluster.replicas.is_empty());
    if may_refuse || has_peers || config.num_replicas > 1 {
        return Pace::OneByOne;
    }
    let bytes_max = usize::try_from(config.max_message_size).ok().filter(|&bytes| bytes > 0);
    Pace::Together { bytes_max: bytes_max.unwrap_or(usize::MAX) }
}

impl Session {
    /// Makes sure that JetStream is there, and looks at the limits of the account.
    pub(crate) async fn find_jetstream(&self) -> Result<(), Trouble> {
        // Not by the driver's own function, which servers before 2.10 tell too little for.
        let asked = tokio::select! {
            asked = self.context.request::<_, _, Value>("INFO", &()) => asked,
            trouble = self.no_answer("$JS.API.INFO") => return match trouble {
                // Who may only publish is not told.
                Trouble::Denied(_) => {
                    self.streams.be_careful();
                    Ok(())
                }
                _ => Err(Trouble::LostBefore),
            },
        };
        match asked {
            Ok(account) if account.get("error").is_none() => {
                self.streams.account(&account);
                Ok(())
            }
            Ok(refusal) => {
                let why = refusal["error"]["description"].as_str().unwrap_or("not enabled");
                Err(Trouble::NoJetStream(why.to_owned()))
            }
            Err(error) => Err(match error.kind() {
                RequestErrorKind::TimedOut => Trouble::NotDialled,
                _ => Trouble::NoJetStream(error.to_string()),
            }),
        }
    }

    /// How messages of a key may go to this subject.
    pub(crate) async fn pace(&self, subject: &str) -> Pace {
        if let Some(known) = self.streams.known(subject) {
            return known;
        }
        match timeout(LOOKUP_TIMEOUT, self.stream_of(subject)).await {
            Ok(Ok(Some(info))) => self.streams.remember(&info),
            // The publish itself will say what is wrong.
            Ok(Ok(None)) => Pace::OneByOne,
            Ok(Err(_)) | Err(_) => {
                self.streams.be_careful();
                Pace::OneByOne
            }
        }
    }

    /// The stream that stores this subject.
    pub(crate) async fn stream_of(&self, subject: &str) -> Result<Option<Info>, Trouble> {
        match self.stream_name_of(subject).await? {
            Some(name) => self.stream(&name).await,
            None => Ok(None),
        }
    }

    async fn stream_name_of(&self, subject: &str) -> Result<Option<String>, Trouble> {
        let found = tokio::select! {
            found = self.context.stream_by_subject(subject) => found,
            trouble = self.no_answer("$JS.API.STREAM.NAMES") => return Err(trouble),
        };
        match found {
            Ok(name) => Ok(Some(name)),
            Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => Ok(None),
            Err(error) => Err(Trouble::NoJetStream(error.to_string())),
        }
    }

    /// The stream of this name.
    pub(crate) async fn stream(&self, name: &str) -> Result<Option<Info>, Trouble> {
        let subject = format!("$JS.API.STREAM.INFO.{name}");
        let found = tokio::select! {
            found = self.context.get_stream(name) => found,
            trouble = self.no_answer(&subject) => return Err(trouble),
        };
        match found {
            Ok(stream) => Ok(Some(stream.cached_info().clone())),
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(refusal) if refusal.code() == 404 => Ok(None),
                _ => Err(Trouble::NoJetStream(error.to_string())),
            },
        }
    }

    /// What it means that nobody answers for a subject: that no stream stores it, or that the one
    /// that does cannot be used now.
    pub(crate) async fn no_responders(&self, subject: &str) -> Trouble {
        match self.stream_name_of(subject).await {
            Ok(None) => Trouble::NoStream(subject.to_owned()),
            Err(Trouble::Denied(_)) => Trouble::MayNotLook(subject.to_owned()),
            Ok(Some(_)) => Trouble::NoLeader(subject.to_owned()),
            Err(Trouble::Lost) => Trouble::LostBefore,
            Err(trouble) => trouble,
        }
    }
}

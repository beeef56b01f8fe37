//! Reading streams, alone or as one of a consumer group. Nothing here is cancel-safe: whoever reads
//! keeps the future until it is done.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use posthaste_core::{Start, Subscription, TopicPattern};
use posthaste_wire::Destination;
use redis::{Cmd, Value, cmd, pipe};
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use crate::{
    config::Target,
    connect::{Session, nonsense},
    entry::{Entry, array, of_stream, of_streams, text},
    outcome::Fault,
};

/// How long the server may take to answer, or to be connected to.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How long one read waits for something new, and so how often there is a look at what else is due.
const BLOCK: Duration = Duration::from_secs(1);
/// How often new streams are looked for.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// How many keys the server looks at in one step of such a search.
const SCAN_KEYS: u32 = 1000;
/// How many such steps are made at a time; the search goes on the next time.
const SCAN_STEPS_MAX: usize = 10;
/// How often a group's unfinished messages are looked for.
const RECLAIM_INTERVAL: Duration = Duration::from_secs(2);
/// After this time without an acknowledgement a message is taken over, whoever has it.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// What the names of our consumers start with if their connections can be told by them.
const CONSUMER_PREFIX: &str = "posthaste-";

/// Reads the streams of a subscription.
pub(crate) struct Reader {
    target: Arc<Target>,
    exact: Vec<String>,
    searches: Vec<Search>,
    search_at: Instant,
    start: Start,
    group: Option<Group>,
    session: Option<Arc<Session>>,
    /// The streams, each with the id that was read last; a group remembers that itself.
    streams: BTreeMap<String, String>,
    /// Whether the streams of the start have been found: those found later are new.
    is_started: bool,
    /// Streams whose messages of ours are to be read again, each from behind an id.
    again: VecDeque<(String, String)>,
    reclaim_at: Instant,
}

struct Group {
    name: String,
    consumer: String,
}

/// A search for streams that match a pattern.
struct Search {
    pattern: TopicPattern,
    glob: String,
    cursor: String,
}

/// What became of the wish to be in a stream's group.
#[derive(PartialEq, Eq)]
enum Joined {
    Founded,
    Found,
    NoStream,
}

impl Reader {
    pub(crate) fn new(
        target: Arc<Target>,
        destination: &Destination,
        subscription: &Subscription,
    ) -> Self {
        let patterns = subscription.topics.iter().map(|topic| destination.pattern(topic));
        let (patterns, exact): (Vec<_>, Vec<_>) =
            patterns.partition(|pattern| pattern.as_str().contains('*'));
        let now = Instant::now();
        Self {
            target,
            exact: exact.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
            searches: patterns.into_iter().map(Search::new).collect(),
            search_at: now,
            start: subscription.start,
            group: subscription.name.clone().map(|name| Group {
                name,
                consumer: format!("{CONSUMER_PREFIX}{}", Uuid::new_v4()),
            }),
            session: None,
            streams: BTreeMap::new(),
            is_started: false,
            again: VecDeque::new(),
            reclaim_at: now,
        }
    }

    /// Waits for entries: some, about as many as there is room for.
    pub(crate) async fn read(mut self, room: usize) -> (Self, Result<Vec<Entry>, Fault>) {
        loop {
            match self.step(room).await {
                Ok(entries) if entries.is_empty() => {}
                Err(Fault::Refused(error)) if error.code() == "NOGROUP" && self.is_started => {
                    // Somebody deleted a stream, or a group: what comes into a new one is new.
                    self.streams.clear();
                    self.again.clear();
                    if let Err(fault) = self.find_streams().await {
                        return self.failed(fault);
                    }
                }
                Err(fault) => return self.failed(fault),
                entries => return (self, entries),
            }
        }
    }

    fn failed(mut self, fault: Fault) -> (Self, Result<Vec<Entry>, Fault>) {
        self.session = None;
        (self, Err(fault))
    }

    async fn step(&mut self, room: usize) -> Result<Vec<Entry>, Fault> {
        if self.session.is_none() {
            self.connect().await?;
        }
        if !self.searches.is_empty() && Instant::now() >= self.search_at {
            self.search(SCAN_STEPS_MAX).await?;
        }
        if let Some((stream, after)) = self.again.pop_front() {
            return self.read_again(stream, after, room).await;
        }
        if Instant::now() >= self.reclaim_at {
            let entries = self.reclaim(room).await?;
            if !entries.is_empty() {
                return Ok(entries);
            }
            self.reclaim_at = Instant::now() + RECLAIM_INTERVAL;
        }
        self.read_new(room).await
    }

    /// Connects, and finds the streams if that has not been done.
    pub(crate) async fn connect(&mut self) -> Result<(), Fault> {
        let dial = timeout(PATIENCE, self.dial()).await;
        let session = dial.unwrap_or(Err(Fault::NoTime(PATIENCE)))?;
        self.session = Some(Arc::new(session));
        if !self.is_started {
            let found = self.find_streams().await;
            if found.is_err() {
                self.session = None;
            }
            found?;
            self.is_started = true;
        } else if self.group.is_some() {
            // What was on its way to us when the connection failed.
            let streams = self.streams.keys();
            self.again = streams.map(|stream| (stream.clone(), "0".to_owned())).collect();
        }
        Ok(())
    }

    async fn dial(&mut self) -> Result<Session, Fault> {
        let session = Session::dial(&self.target).await?;
        if let Some(group) = &mut self.group {
            match session.set_name(&group.consumer).await {
                // Nobody can tell this connection, so nobody may take its absence for our end.
                Err(Fault::Refused(_)) if group.consumer.starts_with(CONSUMER_PREFIX) => {
                    group.consumer = format!("unnamed-{}", Uuid::new_v4());
                }
                Err(Fault::Refused(_)) => {}
                other => other?,
            }
        }
        Ok(session)
    }

    async fn ask(&self, command: &Cmd) -> Result<Value, Fault> {
        self.ask_for(command, PATIENCE).await
    }

    async fn ask_for(&self, command: &Cmd, patience: Duration) -> Result<Value, Fault> {
        let session = self.session.clone().ok_or_else(|| nonsense("no connection"))?;
        timeout(patience, session.ask(command)).await.unwrap_or(Err(Fault::Late(patience)))
    }

    /// Finds all streams.
    async fn find_streams(&mut self) -> Result<(), Fault> {
        for stream in self.exact.clone() {
            self.join(&stream, true).await?;
        }
        self.search(usize::MAX).await
    }

    /// Looks for streams that match a pattern, and takes them in.
    async fn search(&mut self, steps_max: usize) -> Result<(), Fault> {
        let mut founded = Vec::new();
        let mut is_known = false;
        for at in 0..self.searches.len() {
            for _ in 0..steps_max {
                let Search { pattern, glob, cursor } = &self.searches[at];
                let mut scan = cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(glob).arg("COUNT").arg(SCAN_KEYS);
                let answer = self.ask(scan.arg("TYPE").arg("stream")).await?;
                let (cursor, names) = scanned(answer).ok_or_else(|| nonsense("of SCAN"))?;
                let is_new =
                    |name: &String| pattern.matches(name) && !self.streams.contains_key(name);
                let names: Vec<String> = names.into_iter().filter(is_new).collect();
                let is_done = cursor == "0";
                self.searches[at].cursor = cursor;
                for name in names {
                    match self.join(&name, false).await? {
                        Joined::Founded => founded.push(name),
                        Joined::Found => is_known = true,
                        Joined::NoStream => {}
                    }
                }
                if is_done {
                    break;
                }
            }
        }
        if is_known && !self.is_started && self.start == Start::New {
            // The group is not new: streams without it came while it had no subscriber.
            for stream in founded {
                self.ask(self.of_group(&["XGROUP", "SETID"], &stream).arg("0")).await?;
            }
        }
        self.search_at = Instant::now() + SCAN_INTERVAL;
        Ok(())
    }

    /// Takes a stream in: from the start that was asked for, or all of it if it is new.
    async fn join(&mut self, stream: &str, creates: bool) -> Result<Joined, Fault> {
        let is_from_end = !self.is_started && self.start == Start::New;
        if self.group.is_none() {
            if !self.streams.contains_key(stream) {
                let id = if is_from_end { self.last_id(stream).await? } else { "0-0".to_owned() };
                self.streams.insert(stream.to_owned(), id);
            }
            return Ok(Joined::Found);
        }
        let mut create = self.of_group(&["XGROUP", "CREATE"], stream);
        create.arg(if is_from_end { "$" } else { "0" });
        if creates {
            create.arg("MKSTREAM");
        }
        let joined = match self.ask(&create).await {
            Ok(_) => Joined::Founded,
            Err(Fault::Refused(error)) if error.code() == "BUSYGROUP" => Joined::Found,
            // Deleted since it was found.
            Err(Fault::Refused(error))
                if !creates && error.details().is_some_and(|text| text.contains("to exist")) =>
            {
                return Ok(Joined::NoStream);
            }
            Err(fault) => return Err(fault),
        };
        self.streams.insert(stream.to_owned(), String::new());
        Ok(joined)
    }

    async fn last_id(&self, stream: &str) -> Result<String, Fault> {
        let mut last = cmd("XREVRANGE");
        let answer = self.ask(last.arg(stream).arg("+").arg("-").arg("COUNT").arg(1)).await?;
        let entries = of_stream(stream, answer).ok_or_else(|| nonsense("of XREVRANGE"))?;
        Ok(entries.into_iter().next().map_or_else(|| "0-0".to_owned(), |entry| entry.id))
    }

    /// A command about our group of a stream.
    fn of_group(&self, words: &[&str], stream: &str) -> Cmd {
        let mut command = Cmd::new();
        command.arg(words).arg(stream).arg(self.group.as_ref().map(|group| &group.name));
        command
    }

    /// What is new in any stream, or nothing after a while.
    async fn read_new(&mut self, room: usize) -> Result<Vec<Entry>, Fault> {
        if self.streams.is_empty() {
            sleep_until(self.search_at).await;
            return Ok(Vec::new());
        }
        let mut read = match &self.group {
            None => cmd("XREAD"),
            Some(group) => {
                let mut read = cmd("XREADGROUP");
                read.arg("GROUP").arg(&group.name).arg(&group.consumer);
                read
            }
        };
        // The server counts for each stream.
        read.arg("COUNT").arg((room / self.streams.len()).max(1));
        read.arg("BLOCK").arg(BLOCK.as_millis().to_string());
        read.arg("STREAMS").arg(self.streams.keys().collect::<Vec<_>>());
        for id in self.streams.values() {
            read.arg(if self.group.is_some() { ">" } else { id });
        }
        let answer = self.ask_for(&read, BLOCK + PATIENCE).await?;
        let entries = of_streams(answer).ok_or_else(|| nonsense("of XREAD"))?;
        if self.group.is_none() {
            for entry in &entries {
                self.streams.insert(entry.stream.clone(), entry.id.clone());
            }
        }
        Ok(entries)
    }

    /// What we have received of a stream and not acknowledged.
    async fn read_again(
        &mut self,
        stream: String,
        after: String,
        room: usize,
    ) -> Result<Vec<Entry>, Fault> {
        let Some(group) = &self.group else { return Ok(Vec::new()) };
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg(&group.name).arg(&group.consumer);
        read.arg("COUNT").arg(room).arg("STREAMS").arg(&stream).arg(after);
        let answer = self.ask(&read).await?;
        let entries = of_streams(answer).ok_or_else(|| nonsense("of XREADGROUP"))?;
        if let Some(last) = entries.last() {
            self.again.push_front((stream, last.id.clone()));
        }
        let (entries, deleted): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.fields.is_some());
        for entry in deleted {
            self.ask(self.of_group(&["XACK"], &entry.stream).arg(entry.id)).await?;
        }
        Ok(entries)
    }

    /// Takes over what consumers of the group left unfinished: at once if they are gone for sure,
    /// after a time if nobody knows.
    async fn reclaim(&self, room: usize) -> Result<Vec<Entry>, Fault> {
        let Some(group) = &self.group else { return Ok(Vec::new()) };
        let mut live = None;
        let mut taken = Vec::new();
        for (stream, consumers) in self.unfinished().await? {
            for consumer in consumers.into_iter().filter(|name| *name != group.consumer) {
                if live.is_none() {
                    live = Some(self.connected().await?);
                }
                let is_missing =
                    live.iter().flatten().any(|names: &HashSet<_>| !names.contains(&consumer));
                let is_gone = is_missing && consumer.starts_with(CONSUMER_PREFIX);
                let idle = if is_gone { Duration::ZERO } else { IDLE_MAX };
                taken.extend(self.take_over(&stream, &consumer, idle, room).await?);
                if taken.len() >= room {
                    return Ok(taken);
                }
            }
        }
        Ok(taken)
    }

    /// Streams with unfinished messages, and who has them.
    async fn unfinished(&self) -> Result<Vec<(String, Vec<String>)>, Fault> {
        let session = self.session.clone().ok_or_else(|| nonsense("no connection"))?;
        let mut questions = pipe();
        for stream in self.streams.keys() {
            questions.add_command(self.of_group(&["XPENDING"], stream));
        }
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let answers = timeout(PATIENCE, session.pipeline(&questions)).await;
        let answers = answers.map_err(|_| Fault::Late(PATIENCE))?.map_err(Fault::Lost)?;
        let mut unfinished = Vec::new();
        for (stream, answer) in self.streams.keys().zip(answers) {
            if let Value::ServerError(error) = answer {
                return Err(Fault::Refused(error));
            }
            let consumers = consumers(answer).ok_or_else(|| nonsense("of XPENDING"))?;
            if !consumers.is_empty() {
                unfinished.push((stream.clone(), consumers));
            }
        }
        Ok(unfinished)
    }

    /// The names of all connections; `None` if the server does not tell.
    async fn connected(&self) -> Result<Option<HashSet<String>>, Fault> {
        match self.ask(cmd("CLIENT").arg("LIST")).await {
            Ok(answer) => {
                let list = text(answer).ok_or_else(|| nonsense("of CLIENT LIST"))?;
                let names = list.split_whitespace().filter_map(|word| word.strip_prefix("name="));
                Ok(Some(names.map(str::to_owned).collect()))
            }
            Err(Fault::Refused(_)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    async fn take_over(
        &self,
        stream: &str,
        consumer: &str,
        idle: Duration,
        room: usize,
    ) -> Result<Vec<Entry>, Fault> {
        let Some(group) = &self.group else { return Ok(Vec::new()) };
        let idle = idle.as_millis().to_string();
        let mut pending = self.of_group(&["XPENDING"], stream);
        pending.arg("IDLE").arg(&idle).arg("-").arg("+").arg(room).arg(consumer);
        let ids = first_texts(self.ask(&pending).await?).ok_or_else(|| nonsense("of XPENDING"))?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut claim = self.of_group(&["XCLAIM"], stream);
        claim.arg(&group.consumer).arg(&idle).arg(ids);
        of_stream(stream, self.ask(&claim).await?).ok_or_else(|| nonsense("of XCLAIM"))
    }
}

impl Search {
    fn new(pattern: TopicPattern) -> Self {
        let glob = glob(pattern.as_str());
        Self { pattern, glob, cursor: "0".to_owned() }
    }
}

/// A pattern in Redis's words: everything but `*` stands for itself.
fn glob(pattern: &str) -> String {
    let mut glob = String::with_capacity(pattern.len());
    for character in pattern.chars() {
        if matches!(character, '\\' | '?' | '[' | ']' | '^') {
            glob.push('\\');
        }
        glob.push(character);
    }
    glob
}

/// The answer to `SCAN`: where to go on, and names.
fn scanned(answer: Value) -> Option<(String, Vec<String>)> {
    let [cursor, names] = array(answer)?.try_into().ok()?;
    Some((text(cursor)?, array(names)?.into_iter().map(text).collect::<Option<_>>()?))
}

/// The answer to `XPENDING`: who has unfinished messages.
fn consumers(answer: Value) -> Option<Vec<String>> {
    let consumers = array(answer)?.pop()?;
    if consumers == Value::Nil {
        return Some(Vec::new());
    }
    first_texts(consumers)
}

/// The first item of each list in a list.
fn first_texts(answer: Value) -> Option<Vec<String>> {
    let first = |item| text(array(item)?.into_iter().next()?);
    array(answer)?.into_iter().map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_star_is_special_in_a_glob() {
        assert_eq!(glob("orders.*"), "orders.*");
        assert_eq!(glob(r"a?[b]^\c*"), r"a\?\[b\]\^\\c*");
    }
}

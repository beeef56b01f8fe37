//! The arrived messages in order, read from the file that relays append to.

use std::{collections::HashSet, fs::File, io::Read, path::Path};

use posthaste::MessageId;
use serde::Deserialize;

use crate::eventually;

/// How every line begins. In a payload its quotes would be escaped.
const LINE_START: &str = "{\"id\":\"";

/// One line of the `stdout` broker.
#[derive(Clone, Debug, Deserialize)]
pub struct Arrival {
    /// The message's id.
    pub id: MessageId,
    /// Its place in the log.
    pub seq: i64,
    /// Its topic.
    pub topic: String,
    /// Its key.
    pub key: Option<String>,
    /// Its payload.
    pub payload: Option<String>,
    /// 1 for the first try a relay makes.
    pub attempt: u32,
}

/// Everything that arrived so far.
#[derive(Debug)]
pub struct Arrivals {
    file: File,
    /// Read, but not yet a whole line.
    rest: Vec<u8>,
    all: Vec<Arrival>,
    ids: HashSet<MessageId>,
}

impl Arrivals {
    pub(crate) fn open(path: &Path) -> Self {
        let file = File::open(path).expect("the file was made with the stage");
        Self { file, rest: Vec::new(), all: Vec::new(), ids: HashSet::new() }
    }

    /// Reads what is new; returns everything.
    ///
    /// # Panics
    /// When a line makes no sense.
    pub fn read(&mut self) -> &[Arrival] {
        self.file.read_to_end(&mut self.rest).expect("the file can be read");
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..end).collect();
        let lines = String::from_utf8(lines).expect("lines are UTF-8");
        for line in lines.lines() {
            // A killed relay may leave the beginning of a line; its message does not count as
            // delivered.
            let start = line.rfind(LINE_START).expect("a line has an id");
            let arrival: Arrival = serde_json::from_str(&line[start..])
                .unwrap_or_else(|error| panic!("{error} in {line}"));
            self.ids.insert(arrival.id);
            self.all.push(arrival);
        }
        &self.all
    }

    /// Waits until the arrived messages satisfy a condition.
    ///
    /// # Panics
    /// When it is not in time.
    pub async fn wait(&mut self, what: &str, is_right: impl Fn(&[Arrival]) -> bool) -> &[Arrival] {
        eventually(what, async || is_right(self.read()).then_some(())).await;
        &self.all
    }

    /// Waits for so many more, repetitions included.
    ///
    /// # Panics
    /// When they do not come in time.
    pub async fn wait_more(&mut self, count: usize) {
        let count = self.read().len() + count;
        self.wait(&format!("arrival {count}"), |all| all.len() >= count).await;
    }

    /// Waits for these messages.
    ///
    /// # Panics
    /// When they do not come in time.
    pub async fn wait_for(&mut self, ids: &[MessageId]) {
        let deadline = std::time::Instant::now() + crate::PATIENCE;
        loop {
            self.read();
            let missing = ids.iter().filter(|id| !self.ids.contains(id)).count();
            if missing == 0 {
                return;
            }
            let late = std::time::Instant::now() >= deadline;
            assert!(!late, "{missing} of {} messages did not arrive", ids.len());
            tokio::time::sleep(crate::LOOK_EVERY).await;
        }
    }
}

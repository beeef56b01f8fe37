//! The record of a soak: one line of JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One soak.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Record {
    /// When it began.
    pub(crate) date: String,
    /// Of what.
    pub(crate) commit: String,
    pub(crate) minutes: u64,
    /// Runs on real servers.
    pub(crate) servers: Servers,
    /// What the simulator says of its turns, added up.
    pub(crate) simulator: Value,
    pub(crate) failures: Vec<Failure>,
}

/// Runs on real servers, added up.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Servers {
    pub(crate) runs: usize,
    /// How many runs were between these two.
    pub(crate) pairs: BTreeMap<String, usize>,
    /// The seeds of the runs between them.
    pub(crate) seeds: BTreeMap<String, Vec<u64>>,
    pub(crate) faults: BTreeMap<String, usize>,
    /// Faults that there are, and that did not happen.
    pub(crate) not_tested: Vec<String>,
    pub(crate) committed: usize,
    pub(crate) received: usize,
    pub(crate) duplicated: usize,
    pub(crate) causes: BTreeMap<String, usize>,
}

/// What `posthaste-chaos` prints.
#[derive(Debug, Deserialize)]
pub(crate) struct Run {
    store: String,
    broker: String,
    seed: u64,
    faults: BTreeMap<String, usize>,
    committed: usize,
    received: usize,
    duplicated: usize,
    causes: BTreeMap<String, usize>,
}

/// Something that went wrong.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Failure {
    /// What failed.
    pub(crate) what: String,
    /// The command that runs it again, with its seed.
    pub(crate) replay: String,
    /// The end of what it said.
    pub(crate) said: String,
}

impl Record {
    pub(crate) fn begin(date: String, commit: String) -> Self {
        Self { date, commit, simulator: Value::Object(Map::new()), ..Self::default() }
    }

    pub(crate) fn add_run(&mut self, run: Run) {
        let all = &mut self.servers;
        let pair = format!("{}-{}", run.store, run.broker);
        all.runs += 1;
        *all.pairs.entry(pair.clone()).or_default() += 1;
        all.seeds.entry(pair).or_default().push(run.seed);
        sum(&mut all.faults, run.faults);
        sum(&mut all.causes, run.causes);
        let missing = all.faults.iter().filter(|(_, count)| **count == 0);
        all.not_tested = missing.map(|(name, _)| name.clone()).collect();
        all.committed += run.committed;
        all.received += run.received;
        all.duplicated += run.duplicated;
    }

    /// Adds a turn of the simulator: what it counted, where its seeds were, what it found.
    pub(crate) fn add_simulation(&mut self, mut line: Value) {
        let Some(fields) = line.as_object_mut() else { return };
        for failure in taken(fields, "failures") {
            self.failures.push(Failure {
                what: format!("the simulator with seed {}", failure["seed"]),
                replay: text(&failure["replay"]),
                said: failure["problems"].to_string(),
            });
        }
        let seeds = taken(fields, "seeds");
        if let [from, to] = seeds.as_slice() {
            fields.insert("seeds".to_owned(), Value::from(vec![format!("{from}..{to}")]));
        }
        let planted = taken(fields, "planted");
        let (found, missed): (Vec<_>, Vec<_>) =
            planted.iter().partition(|bug| bug["seeds"].is_u64());
        for bug in &missed {
            let name = text(&bug["planted"]);
            self.failures.push(Failure {
                what: format!("the simulator does not find the planted bug {name}"),
                replay: "cargo run --package posthaste-sim -- planted".to_owned(),
                said: String::new(),
            });
        }
        // With the seeds it took, as text: every turn looks in the same ones, so nothing is added up.
        let found = found.iter().map(|bug| format!("{} {}", text(&bug["planted"]), bug["seeds"]));
        let missed = missed.iter().map(|bug| text(&bug["planted"]));
        fields.insert("planted_found".to_owned(), found.collect());
        fields.insert("planted_missed".to_owned(), missed.collect());
        add(&mut self.simulator, line);
        let faults = self.simulator["faults"].as_object().into_iter().flatten();
        let missing = faults.filter(|(_, count)| count.as_u64() == Some(0));
        let missing: Vec<Value> = missing.map(|(name, _)| Value::from(name.as_str())).collect();
        self.simulator["not_tested"] = Value::Array(missing);
    }

    /// One line, for whoever waits.
    pub(crate) fn summary(&self) -> String {
        let Servers { runs, committed, duplicated, .. } = &self.servers;
        let failures = self.failures.len();
        format!("{runs} runs, {committed} committed, {duplicated} duplicated, {failures} failures")
    }
}

/// A list of an object, taken out of it.
fn taken(fields: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    match fields.remove(name) {
        Some(Value::Array(values)) => values,
        _ => Vec::new(),
    }
}

/// A string without its quotes.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn sum(all: &mut BTreeMap<String, usize>, more: BTreeMap<String, usize>) {
    for (name, count) in more {
        *all.entry(name).or_default() += count;
    }
}

/// Numbers are added, lists joined, objects merged; of anything else the last one stays.
fn add(all: &mut Value, more: Value) {
    match (all, more) {
        (Value::Object(all), Value::Object(more)) => {
            for (name, value) in more {
                match all.get_mut(&name) {
                    Some(there) => add(there, value),
                    None => _ = all.insert(name, value),
                }
            }
        }
        (Value::Array(all), Value::Array(more)) => {
            for value in more {
                if !all.contains(&value) {
                    all.push(value);
                }
            }
        }
        (all, more) => match (all.as_u64(), more.as_u64(), all.as_f64(), more.as_f64()) {
            (Some(a), Some(b), ..) => *all = Value::from(a + b),
            (_, _, Some(a), Some(b)) => *all = Value::from((a + b).round()),
            _ => *all = more,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn turns_of_the_simulator_add_up() {
        let mut all = json!({"schedules": 3, "faults": {"crash": 1}, "seeds": [1], "commit": "a"});
        add(
            &mut all,
            json!({"schedules": 4, "faults": {"cut": 2}, "seeds": [1, 2], "commit": "b"}),
        );
        let expected = json!({
            "schedules": 7, "faults": {"crash": 1, "cut": 2}, "seeds": [1, 2], "commit": "b"
        });
        assert_eq!(all, expected);
    }

    #[test]
    fn what_the_simulator_finds_and_misses_is_told() {
        let turn = json!({
            "seeds": [5, 9], "schedules": 4, "seconds": 1.4,
            "faults": {"crash": 2, "cut": 0},
            "failures": [{"seed": 7, "problems": ["P2 lost"], "replay": "again"}],
            "planted": [
                {"planted": "mark-first", "seeds": 3, "problem": "P2 lost"},
                {"planted": "row-claim", "seeds": null, "problem": null},
            ],
        });
        let mut record = Record::begin(String::new(), String::new());
        record.add_simulation(turn.clone());
        record.add_simulation(turn);
        assert_eq!(record.simulator["schedules"], 8);
        assert_eq!(record.simulator["seeds"], json!(["5..9"]));
        assert_eq!(record.simulator["planted_found"], json!(["mark-first 3"]));
        assert_eq!(record.simulator["planted_missed"], json!(["row-claim"]));
        assert_eq!(record.simulator["not_tested"], json!(["cut"]));
        assert_eq!(record.failures.len(), 4, "{:?}", record.failures);
        assert_eq!(record.failures[0].replay, "again");
    }

    #[test]
    fn a_fault_that_never_happened_is_named() {
        let run = |count| Run {
            store: "sqlite".to_owned(),
            broker: "nats".to_owned(),
            seed: 1,
            faults: BTreeMap::from([("cut".to_owned(), count), ("kill".to_owned(), 1)]),
            committed: 10,
            received: 10,
            duplicated: 0,
            causes: BTreeMap::new(),
        };
        let mut record = Record::default();
        record.add_run(run(0));
        assert_eq!(record.servers.not_tested, ["cut"]);
        record.add_run(run(2));
        assert!(record.servers.not_tested.is_empty());
        assert_eq!((record.servers.runs, record.servers.committed), (2, 20));
    }
}

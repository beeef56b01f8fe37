//! R8.03: the program that consumes and relays is killed (`SIGKILL`) at each named point; then another
//! one is given the input again.
//!
//! The program is this test program, run once more with a plan in its environment. The points are in
//! what it gives the library: subscriber, handler and broker. There it says that it is where it should
//! be, and stays there until it is killed.

use std::{
    collections::{HashMap, HashSet},
    env,
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use posthaste::{Backoff, Consumer, HandlerError, Inbox, Message, Relay};
use sqlx::{Postgres, Sqlite};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    sync::Notify,
    time::timeout,
};
use uuid::Uuid;

use crate::{
    bed::{Base, Bed, LONG, bump, emit, on_each_database},
    shelf::{Reader, Shelf, Writer},
};

/// Holds the plan of a program that will be killed.
const PLAN: &str = "POSTHASTE_R8_PLAN";
/// What such a program says at its point.
const REACHED: &str = "the point is reached";

/// Where the program is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    BeforeLoad,
    BeforeCommit,
    BeforeDispatch,
    FirstOfTwo,
    BeforeSettle,
    BeforeAcknowledge,
    /// Not in the requirement: where dispatch needed the input to come again, this would lose outputs.
    AcknowledgedBeforeDispatch,
}

impl Point {
    const ALL: [Self; 7] = [
        Self::BeforeLoad,
        Self::BeforeCommit,
        Self::BeforeDispatch,
        Self::FirstOfTwo,
        Self::BeforeSettle,
        Self::BeforeAcknowledge,
        Self::AcknowledgedBeforeDispatch,
    ];
}

/// Stops the program at its point, if it has one.
#[derive(Clone, Copy)]
pub(crate) struct Hook {
    pub(crate) point: Option<Point>,
}

impl Hook {
    pub(crate) async fn reach(self, point: Point) {
        if self.point == Some(point) {
            // Ends with a line break, so nothing is left in a buffer.
            writeln!(std::io::stdout(), "{REACHED}").expect("somebody listens");
            std::future::pending::<()>().await;
        }
    }
}

/// How the inbox knows what it has handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Ids,
    Optimistic,
    Watermark,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Ids, Self::Optimistic, Self::Watermark];

    fn inbox<DB: Base>(self) -> Inbox<DB> {
        match self {
            Self::Ids => Inbox::new("c"),
            Self::Optimistic => Inbox::new("c").optimistic(),
            Self::Watermark => Inbox::new("c").watermark(),
        }
    }
}

/// What a program is to do.
struct Plan {
    mode: Mode,
    hook: Hook,
    /// Messages that the handler emits.
    outputs: usize,
    folder: PathBuf,
}

impl Plan {
    fn to_text(&self, url: &str) -> String {
        let mode = Mode::ALL.iter().position(|it| *it == self.mode).expect("one of all");
        let point = Point::ALL.iter().position(|it| Some(*it) == self.hook.point).expect("a point");
        format!("{mode}\n{point}\n{}\n{}\n{url}", self.outputs, self.folder.display())
    }

    fn from_text(text: &str) -> (Self, String) {
        let mut lines = text.lines();
        let mut line = || lines.next().expect("five lines");
        let mut number = || line().parse::<usize>().expect("a number");
        let (mode, point, outputs) = (Mode::ALL[number()], Point::ALL[number()], number());
        let folder = PathBuf::from(line());
        let hook = Hook { point: Some(point) };
        (Self { mode, hook, outputs, folder }, line().to_owned())
    }
}

/// The program: consumes what is on the shelf, and dispatches what that makes.
async fn program<DB: Base>(plan: &Plan, pool: DB::Pool) {
    let shelf = Shelf::new(&plan.folder);
    let is_empty = Arc::new(Notify::new());
    let reader = Reader::<DB> {
        shelf: shelf.clone(),
        hook: plan.hook,
        pool: pool.clone(),
        given: HashSet::new(),
        is_empty: Arc::clone(&is_empty),
    };
    let (handled, hook, outputs) = (shelf.clone(), plan.hook, plan.outputs);
    let consumer = Consumer::builder(pool.clone(), plan.mode.inbox::<DB>(), Box::new(reader))
        .retry(Backoff { initial: LONG, max: LONG }, 10)
        .on("Add", move |tx, _| {
            let handled = handled.clone();
            Box::pin(async move { handle::<DB>(tx, &handled, hook, outputs).await })
        });
    let consumer = consumer.build().expect("a consumer").spawn();
    is_empty.notified().await;
    consumer.shutdown().await.expect("a consumer that stops");
    dispatch::<DB>(&shelf, plan.hook, pool).await;
}

/// Counts, and emits messages that are never the same twice.
async fn handle<DB: Base>(
    tx: &mut DB::Connection,
    shelf: &Shelf,
    hook: Hook,
    outputs: usize,
) -> Result<(), HandlerError> {
    shelf.add("handled", "once");
    bump::<DB>(tx, "counter").await?;
    for _ in 0..outputs {
        emit::<DB>(tx, Message::new("outputs", "k", &Uuid::new_v4())?).await?;
    }
    hook.reach(Point::BeforeCommit).await;
    Ok(())
}

/// A relay, until nothing is left to send.
pub(crate) async fn dispatch<DB: Base>(shelf: &Shelf, hook: Hook, pool: DB::Pool) {
    let writer = Writer::<DB> { shelf: shelf.clone(), hook, pool: pool.clone() };
    let relay = Relay::builder(pool).route("outputs", "outputs", Arc::new(writer));
    relay.build().expect("a relay").run_once().await.expect("everything is sent");
}

/// Runs the program until it is at its point, and kills it there.
async fn kill(plan: &Plan, url: &str) {
    let mut child = Command::new(env::current_exe().expect("this program"))
        .args(["crash::program_without_a_crash", "--exact", "--nocapture"])
        .env(PLAN, plan.to_text(url))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("a program");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let reached = async {
        let mut said = Vec::new();
        while let Some(line) = lines.next_line().await.expect("what it says") {
            if line.contains(REACHED) {
                return;
            }
            said.push(line);
        }
        panic!("it ended before its point: {said:#?}");
    };
    timeout(LONG, reached).await.expect("it gets there in time");
    child.kill().await.expect("it can be killed");
}

/// What is to be seen from outside.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    count: i64,
    handled: usize,
    published: usize,
    acknowledged: usize,
}

async fn seen<DB: Base>(bed: &Bed<DB>, shelf: &Shelf) -> Seen {
    Seen {
        count: bed.count().await,
        handled: shelf.lines("handled").len(),
        published: shelf.lines("published").len(),
        acknowledged: shelf.lines("acknowledged").len(),
    }
}

/// What is to be seen right after the crash.
fn at(point: Point) -> Seen {
    let (count, handled, published, acknowledged) = match point {
        Point::BeforeLoad => (0, 0, 0, 0),
        Point::BeforeCommit => (0, 1, 0, 0),
        Point::BeforeDispatch => (1, 1, 0, 0),
        Point::FirstOfTwo | Point::BeforeSettle | Point::BeforeAcknowledge => (1, 1, 1, 0),
        Point::AcknowledgedBeforeDispatch => (1, 1, 0, 1),
    };
    Seen { count, handled, published, acknowledged }
}

/// Crash, redelivery, one more copy: in every mode.
async fn crash<DB: Base>(point: Point) {
    for mode in Mode::ALL {
        let bed = Bed::<DB>::new().await;
        let folder = tempfile::tempdir().expect("a folder");
        let shelf = Shelf::new(folder.path());
        let input = Uuid::now_v7().to_string();
        shelf.add("inputs", &input);
        let outputs = if point == Point::FirstOfTwo { 2 } else { 1 };
        let hook = Hook { point: Some(point) };
        let plan = Plan { mode, hook, outputs, folder: folder.path().to_owned() };
        kill(&plan, &bed.url).await;
        assert_eq!(seen(&bed, &shelf).await, at(point), "{mode:?}");
        // A relay that is dead holds its lease for a while.
        DB::act(&bed.pool, DB::EXPIRE).await;
        if point == Point::AcknowledgedBeforeDispatch {
            // The input does not come again, and is not needed.
            dispatch::<DB>(&shelf, Hook { point: None }, bed.pool.clone()).await;
        } else {
            run::<DB>(&bed, &plan).await;
        }
        let after = check::<DB>(&bed, &shelf, &plan, point).await;
        shelf.add("inputs", &input);
        run::<DB>(&bed, &plan).await;
        let expected = Seen { acknowledged: 2, ..after };
        assert_eq!(seen(&bed, &shelf).await, expected, "{mode:?}: a further copy");
    }
}

/// The program once more, in this process, to its end.
async fn run<DB: Base>(bed: &Bed<DB>, plan: &Plan) {
    let folder: &Path = &plan.folder;
    let plan = Plan { hook: Hook { point: None }, folder: folder.to_owned(), ..*plan };
    timeout(LONG, program::<DB>(&plan, bed.pool.clone())).await.expect("it ends in time");
}

/// What must be so once the input was handled, whatever happened.
async fn check<DB: Base>(bed: &Bed<DB>, shelf: &Shelf, plan: &Plan, point: Point) -> Seen {
    let mode = plan.mode;
    let after = seen(bed, shelf).await;
    assert_eq!((after.count, after.acknowledged), (1, 1), "{mode:?}");
    let handled = if point == Point::BeforeCommit { 2 } else { 1 };
    assert_eq!(after.handled, handled, "{mode:?}: only a run that was rolled back is repeated");
    let again = usize::from(matches!(point, Point::FirstOfTwo | Point::BeforeSettle));
    assert_eq!(after.published, plan.outputs + again, "{mode:?}: what was not settled is repeated");
    let mut outputs: HashMap<String, String> = HashMap::new();
    for line in shelf.lines("published") {
        let id = line.split(' ').next().expect("an id").to_owned();
        let first = outputs.entry(id).or_insert_with(|| line.clone());
        assert_eq!(*first, line, "{mode:?}: every copy has the same bytes");
        assert!(line.ends_with(r#"["1"]"#), "{mode:?}: state is seen before its messages: {line}");
    }
    assert_eq!(outputs.len(), plan.outputs, "{mode:?}: outputs of one run of the handler");
    after
}

/// Also what is run to be killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_without_a_crash() {
    let Ok(text) = env::var(PLAN) else {
        without_a_crash::<Postgres>().await;
        return without_a_crash::<Sqlite>().await;
    };
    let (plan, url) = Plan::from_text(&text);
    if url.starts_with("sqlite") {
        program::<Sqlite>(&plan, Sqlite::connect(&url).await).await;
    } else {
        program::<Postgres>(&plan, Postgres::connect(&url).await).await;
    }
}

async fn without_a_crash<DB: Base>() {
    for mode in Mode::ALL {
        let bed = Bed::<DB>::new().await;
        let folder = tempfile::tempdir().expect("a folder");
        let shelf = Shelf::new(folder.path());
        shelf.add("inputs", &Uuid::now_v7().to_string());
        let hook = Hook { point: None };
        let plan = Plan { mode, hook, outputs: 2, folder: folder.path().to_owned() };
        run::<DB>(&bed, &plan).await;
        let expected = Seen { count: 1, handled: 1, published: 2, acknowledged: 1 };
        assert_eq!(seen(&bed, &shelf).await, expected, "{mode:?}");
    }
}

async fn r8_03_killed_before_load<DB: Base>() {
    crash::<DB>(Point::BeforeLoad).await;
}

async fn r8_03_killed_after_the_handler_before_commit<DB: Base>() {
    crash::<DB>(Point::BeforeCommit).await;
}

async fn r8_03_killed_after_commit_before_dispatch<DB: Base>() {
    crash::<DB>(Point::BeforeDispatch).await;
}

async fn r8_03_killed_after_the_first_of_two_dispatches<DB: Base>() {
    crash::<DB>(Point::FirstOfTwo).await;
}

async fn r8_03_killed_after_dispatch_before_settle<DB: Base>() {
    crash::<DB>(Point::BeforeSettle).await;
}

async fn r8_03_killed_after_settle_before_acknowledge<DB: Base>() {
    crash::<DB>(Point::BeforeAcknowledge).await;
}

async fn r8_03_killed_after_acknowledge_before_dispatch<DB: Base>() {
    crash::<DB>(Point::AcknowledgedBeforeDispatch).await;
}

on_each_database!(
    r8_03_killed_before_load,
    r8_03_killed_after_the_handler_before_commit,
    r8_03_killed_after_commit_before_dispatch,
    r8_03_killed_after_the_first_of_two_dispatches,
    r8_03_killed_after_dispatch_before_settle,
    r8_03_killed_after_settle_before_acknowledge,
    r8_03_killed_after_acknowledge_before_dispatch,
);

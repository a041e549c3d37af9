//! A bounded search queue with random victims, as meant and with its two reported defects, next to `Admission::admit`.
//!
//! Each run is a process of its own, in which callers and searches are tasks. A search takes 20 ms of one of eight
//! cores that all searches share, and goes on when its caller has left, as a thread would. Callers leave after 200 ms.

mod cores;
mod glue;
mod queue;

use std::{
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use load::{Meter, Outcome, Plan, Role, Row, drive, header, row};
use tower_admission::{Admission, Permit};

use crate::{
    cores::Cores,
    queue::{Defects, SearchQueue, Slot},
};

const CORES: usize = 8;
const PLACES: usize = 1_000;
/// In turns of 5 ms.
const TURNS: u32 = 4;
const SEARCH: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_millis(200);
const VARIANTS: [&str; 6] = ["own queue", "own, #6577", "own, #6577 and #6578", "fixed", "patience", "best"];

/// What decides which searches run.
#[derive(Debug)]
enum Gate {
    Own(SearchQueue),
    Ours(Admission),
}

/// The right to search.
#[derive(Debug)]
enum Held {
    Own(Slot),
    Ours(Permit),
}

impl Gate {
    fn new(variant: &str) -> Self {
        let own = |forgets_hand_offs, gives_back_twice| {
            Self::Own(SearchQueue::new(CORES, PLACES, Defects { forgets_hand_offs, gives_back_twice }))
        };
        let ours = match variant {
            "own queue" => return own(false, false),
            "own, #6577" => return own(true, false),
            "own, #6577 and #6578" => return own(true, true),
            "fixed" => glue::fixed(CORES, PLACES, DEADLINE, SEARCH),
            "patience" => glue::patience(DEADLINE),
            "best" => glue::best(CORES, DEADLINE),
            _ => panic!("{variant} is none of {VARIANTS:?}"),
        };
        Self::Ours(ours.expect("valid settings"))
    }

    async fn enter(&self) -> Option<Held> {
        match self {
            Self::Own(queue) => queue.enter().await.map(Held::Own),
            Self::Ours(admission) => glue::enter(admission).await.map(Held::Ours),
        }
    }
}

impl Held {
    fn end(self) {
        match self {
            Self::Own(slot) => slot.end(),
            Self::Ours(permit) => glue::end(permit),
        }
    }
}

/// What the searches of a run share.
#[derive(Debug)]
struct Engine {
    gate: Gate,
    cores: Cores,
    meter: Meter,
}

/// One call: its search is a task of its own, which goes on to its end.
async fn search(engine: Arc<Engine>) -> Outcome {
    let Some(held) = engine.gate.enter().await else { return Outcome::Refused };
    let work = tokio::spawn(async move {
        let running = engine.meter.enter();
        engine.cores.work(TURNS).await;
        engine.meter.worked(1);
        drop(running);
        held.end();
    });
    if work.await.is_ok() { Outcome::InTime(1) } else { Outcome::Failed }
}

/// One run, which prints its row.
async fn run(variant: &str, load: f64, quick: bool) {
    let [warm_up, length] = if quick { [500, 1_500] } else { [1_000, 7_000] }.map(Duration::from_millis);
    let capacity = 1.0 / SEARCH.as_secs_f64() * 8.0;
    let plan = Plan { warm_up, length, ..Plan::new(capacity, DEADLINE, quick) };
    let engine = Arc::new(Engine { gate: Gate::new(variant), cores: Cores::new(CORES), meter: Meter::default() });
    let tally = drive(&plan, load, |_| search(Arc::clone(&engine))).await;
    let counters = engine.meter.counters();
    println!("{}", row(&Row { load, variant, plan: &plan, tally: &tally, counters }));
}

#[tokio::main]
async fn main() {
    let (quick, only) = match Role::of_this_process() {
        Role::Serve(words) => {
            let (load, variant) = words.split_once(' ').expect("a load and a variant");
            let (load, quick) = load.strip_prefix('~').map_or((load, false), |load| (load, true));
            return run(variant, load.parse().expect("a number"), quick).await;
        }
        Role::Table { quick, only } => (quick, only),
    };
    println!("{}", header());
    let program = std::env::current_exe().expect("this program has a path");
    for (load, variant) in load::runs(&VARIANTS, &only) {
        let words = format!("{}{load} {variant}", if quick { "~" } else { "" });
        let status = Command::new(&program).args(["--serve", &words]).stdin(Stdio::null()).status();
        assert!(status.expect("this program runs").success(), "{variant} failed");
    }
}

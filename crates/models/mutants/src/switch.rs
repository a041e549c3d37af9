//! Added to the copy as `crates/engine/src/mutants.rs`, of which the store and the facade use it too: which mutant is on in this process, and which of them a test reaches.

use std::{
    cell::Cell,
    env,
    fs::{File, OpenOptions},
    io::Write,
    sync::{
        LazyLock, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

struct Record {
    file: Mutex<File>,
    /// By mutant: the last test that reached it.
    last: Vec<AtomicU32>,
    test: AtomicU32,
}

enum Switch {
    On(u32),
    Record(Record),
}

static SWITCH: LazyLock<Switch> = LazyLock::new(|| {
    let Ok(path) = env::var("MUTANTS_REACHED") else {
        return Switch::On(env::var("MUTANT").ok().and_then(|it| it.parse().ok()).unwrap_or(0));
    };
    let file = OpenOptions::new().create(true).append(true).open(path).expect("a file for what is reached");
    let last = (0..100_000).map(|_| AtomicU32::new(0)).collect();
    Switch::Record(Record { file: Mutex::new(file), last, test: AtomicU32::new(1) })
});

thread_local! {
    static IS_KNOWN: Cell<bool> = const { Cell::new(false) };
}

/// Whether this mutant is on. While a run is recorded, none is.
#[inline]
pub fn on(mutant: u32) -> bool {
    match &*SWITCH {
        Switch::On(active) => *active == mutant,
        Switch::Record(record) => {
            record.note(mutant);
            false
        }
    }
}

impl Record {
    /// Tests run after each other here, each on a thread with its name. What other threads do belongs to the test that runs.
    fn note(&self, mutant: u32) {
        if let Ok(false) = IS_KNOWN.try_with(|it| it.replace(true)) {
            let thread = thread::current();
            if let Some(name) = thread.name().filter(|it| it.contains("::")) {
                let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
                self.test.fetch_add(1, Ordering::SeqCst);
                writeln!(file, "test {name}").expect("the file grows");
            }
        }
        let test = self.test.load(Ordering::Relaxed);
        if self.last[mutant as usize].swap(test, Ordering::Relaxed) != test {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(file, "{mutant}").expect("the file grows");
        }
    }
}

//! Steps drawn from the model's actions, replayed against the shipped stores: each answer is that of the model.
//!
//! The store in memory runs in the model's time, expiries included. Redis has a time of its own, so there no time passes:
//! what expires there is compared with the store in memory by `crates/e2e/tests/redis/oracle.rs`.

use std::{
    collections::BTreeMap,
    env, fs,
    net::TcpListener,
    num::NonZeroU32,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use admission_models_protocol::{Action, EXPIRY, Leases, Mistake, Question, State};
use stateright::Model;
use tower_admission::{
    Clock,
    store::{Acquired, AfterRestart, Claim, Claims, Keys, Lease, MemoryStore, RedisStore, Request, Store, Token},
};

const TICK: Duration = Duration::from_secs(60);

/// The model's time.
#[derive(Clone, Debug, Default)]
struct Ticks(Arc<AtomicU64>);

impl Clock for Ticks {
    fn now(&self) -> Duration {
        TICK * u32::try_from(self.0.load(SeqCst)).unwrap()
    }
}

/// A walk through the model, and the answers of a store to the same steps.
struct Walk<'a> {
    model: Leases,
    store: &'a dyn Store,
    claims: Claims,
    tokens: Vec<Token>,
    leases: BTreeMap<u8, Lease>,
    ticks: Ticks,
    answers: u64,
    differences: u64,
}

impl<'a> Walk<'a> {
    fn new(model: Leases, store: &'a dyn Store, ticks: Ticks, name: &str) -> Self {
        let cap = NonZeroU32::new(u32::try_from(model.cap).unwrap()).unwrap();
        let key = Keys::new("model").unwrap().cap("", "walk", name);
        let claims = Claims::new(vec![Claim::cap(key, cap)]).unwrap();
        let tokens = (0..model.processes).map(|_| Token::random().unwrap()).collect();
        Self { model, store, claims, tokens, leases: BTreeMap::new(), ticks, answers: 0, differences: 0 }
    }

    /// `None` where the store never granted what the model did.
    async fn ask(&mut self, process: u8, question: Question) -> Option<bool> {
        let token = self.tokens[usize::from(process)];
        Some(match question {
            Question::Acquire => {
                let request = Request::new(token, self.claims.clone(), TICK * u32::from(EXPIRY));
                match self.store.acquire(&request).await.unwrap() {
                    Acquired::Granted(lease) => {
                        self.leases.insert(process, lease);
                        true
                    }
                    _ => false,
                }
            }
            Question::Renew => {
                let lease = self.leases.get(&process)?.clone();
                self.store.renew(&[lease]).await.unwrap().lost.is_empty()
            }
            Question::Release => {
                let lease = self.leases.get(&process)?.clone();
                self.store.release(&[lease]).await.unwrap().held == 1
            }
        })
    }

    async fn steps(&mut self, random: &mut fastrand::Rng, steps: usize, time_passes: bool) {
        let mut state: State = self.model.init_states().remove(0);
        for _ in 0..steps {
            let mut actions = Vec::new();
            self.model.actions(&state, &mut actions);
            // A store that fails over is another one, and processes that pause ask it nothing.
            actions.retain(|it| {
                !matches!(it, Action::FailOver | Action::Pause(_)) && (time_passes || *it != Action::Tick)
            });
            let Some(&action) = actions.get(random.usize(..actions.len().max(1))) else { return };
            let asked = match action {
                Action::Answer(process) => state.processes[usize::from(process)].asked.map(|(it, _)| (process, it)),
                _ => None,
            };
            state = self.model.next_state(&state, action).unwrap();
            self.ticks.0.store(state.now.into(), SeqCst);
            if let Some((process, question)) = asked {
                let expected = state.processes[usize::from(process)].answered.unwrap().2;
                self.answers += 1;
                self.differences += u64::from(self.ask(process, question).await != Some(expected));
            }
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn model(mistake: Mistake, processes: u8) -> Leases {
    Leases { cap: 2, processes, end: 60, mistake }
}

/// Walks in memory; returns answers, and those that differ.
fn in_memory(mistake: Mistake, walks: u64) -> (u64, u64) {
    let (mut answers, mut differences) = (0, 0);
    for seed in 0..walks {
        let ticks = Ticks::default();
        let store = MemoryStore::with_clock(ticks.clone());
        let mut walk = Walk::new(model(mistake, 4), &store, ticks, "cap");
        runtime().block_on(walk.steps(&mut fastrand::Rng::with_seed(seed), 400, true));
        answers += walk.answers;
        differences += walk.differences;
    }
    (answers, differences)
}

#[test]
fn the_store_in_memory_answers_as_the_model_does() {
    let begin = Instant::now();
    let (answers, differences) = in_memory(Mistake::None, 300);
    assert!(answers > 5_000, "{answers} answers");
    assert_eq!(differences, 0, "of {answers} answers");
    println!(
        "the_store_in_memory_answers_as_the_model_does: {answers} executions (answers, seeds 0..300) in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
}

#[test]
fn control_a_store_with_a_mistake_is_found_beside_the_model() {
    for mistake in [Mistake::ExpiresEarly, Mistake::RenewsWhatIsGone] {
        let (answers, differences) = in_memory(mistake, 50);
        assert!(differences > 0, "{mistake:?}: 0 of {answers} answers differ");
        println!("found: {mistake:?}: {differences} of {answers} answers differ");
    }
}

/// A server of its own, on loopback.
struct Server(Child, String);

impl Server {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = env::temp_dir().join(format!("admission-protocol-{port}"));
        fs::create_dir_all(&folder).unwrap();
        let settings = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port"];
        let mut server = Command::new("redis-server");
        server.args(settings).arg(port.to_string()).arg("--dir").arg(&folder).stdout(Stdio::null());
        Self(server.spawn().expect("redis-server is installed"), format!("redis://127.0.0.1:{port}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn the_scripts_answer_as_the_model_does() {
    let (server, begin) = (Server::start(), Instant::now());
    runtime().block_on(async {
        let store = RedisStore::builder(&server.1, Keys::new("model").unwrap())
            .after_restart(AfterRestart::Grant)
            .timeout(Duration::from_secs(30))
            .build()
            .unwrap();
        // It is up when it answers.
        let probe = Walk::new(model(Mistake::None, 1), &store, Ticks::default(), "probe");
        let request = Request::new(probe.tokens[0], probe.claims.clone(), TICK);
        let mut tries = 0;
        while let Err(error) = store.acquire(&request).await {
            tries += 1;
            assert!(tries < 200, "{error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (mut answers, mut differences) = (0, 0);
        for seed in 0..40 {
            let mut walk = Walk::new(model(Mistake::None, 4), &store, Ticks::default(), &format!("cap {seed}"));
            walk.steps(&mut fastrand::Rng::with_seed(seed), 400, false).await;
            answers += walk.answers;
            differences += walk.differences;
        }
        assert!(answers > 1_000, "{answers} answers");
        assert_eq!(differences, 0, "of {answers} answers");
        println!(
            "the_scripts_answer_as_the_model_does: {answers} executions (answers, seeds 0..40) in {:.1} s",
            begin.elapsed().as_secs_f64()
        );
    });
}

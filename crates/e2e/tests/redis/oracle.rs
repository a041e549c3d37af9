//! Random operations on Redis, each repeated on the store in memory at the same moment: no answer differs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use tower_admission::{
    Clock,
    store::{
        Acquired, AllotmentRequest, Claim, Claims, Lease, LockRequest, Locked, MemoryStore, RateMode, Request, Store,
        StoreTime, Token,
    },
};

use super::support::{cap, keys, ms, number, rate, server::Server, soak};

/// The time of the server, as of its last answer.
#[derive(Clone, Debug, Default)]
struct ServerTime(Arc<AtomicU64>);

impl ServerTime {
    fn set(&self, at: StoreTime) {
        self.0.store(u64::try_from(at.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for ServerTime {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::SeqCst))
    }
}

/// The time of the server before its first answer: locks last for longer than it takes until then.
async fn now(server: &Server) -> ServerTime {
    let now = ServerTime::default();
    now.set(Duration::from_secs(server.seconds().await));
    now
}

struct Run {
    redis: Arc<dyn Store>,
    memory: MemoryStore,
    time: ServerTime,
    rng: Rng,
    leases: Vec<(Lease, Lease)>,
    blocks: Vec<AllotmentRequest>,
    locks: Vec<Locked>,
    counts: [u64; 7],
}

impl Run {
    fn new(redis: Arc<dyn Store>, time: ServerTime, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let token = |_| Token::random().unwrap();
        let expiry = ms(rng.u64(2..20));
        let blocks = (0..4).map(|index| {
            let key = cap(&format!("c{}", index % 2), 8).key().clone();
            AllotmentRequest::new(token(index), key, number(8), expiry)
        });
        let locks = (0..3).map(|index| Locked::new(keys().admission("acme"), token(index), Duration::from_secs(60)));
        let (blocks, locks) = (blocks.collect(), locks.collect());
        let memory = MemoryStore::with_clock(time.clone());
        Self { redis, memory, time, rng, leases: Vec::new(), blocks, locks, counts: [0; 7] }
    }

    fn rate(&mut self) -> Claim {
        let every = Duration::from_micros(5_003);
        match self.rng.u8(..2) {
            0 => rate("bucket", 7, RateMode::Window).every(every),
            _ => rate("smooth", 9, RateMode::Smooth { burst: number(3) }).every(every),
        }
    }

    fn claims(&mut self) -> Claims {
        // While settings change, processes state different bounds.
        let bound = if self.rng.u8(..4) == 0 { 5 } else { 8 };
        let mut all: Vec<_> = (0..3).map(|index| cap(&format!("c{index}"), bound)).collect();
        all.push(self.rate());
        self.rng.shuffle(&mut all);
        all.truncate(self.rng.usize(1..=all.len()));
        Claims::new(all).unwrap()
    }

    /// One operation on both; `Err` says how the answers differ.
    async fn step(&mut self) -> Result<(), String> {
        let kind = self.rng.usize(..self.counts.len());
        self.counts[kind] += 1;
        match kind {
            0 => {
                let expiry = ms(self.rng.u64(1..12));
                let mut request = Request::new(Token::random().unwrap(), self.claims(), expiry);
                if self.rng.bool() {
                    request = request.waiting();
                }
                let redis = self.redis.acquire(&request).await.unwrap();
                self.time.set(match &redis {
                    Acquired::Granted(lease) => lease.granted_at(),
                    Acquired::Full(full) => full.at,
                    other => return Err(format!("{other:?}")),
                });
                match (redis, self.memory.acquire(&request).await.unwrap()) {
                    (Acquired::Granted(redis), Acquired::Granted(memory)) => self.leases.push((redis, memory)),
                    (Acquired::Full(redis), Acquired::Full(memory)) if redis == memory => {}
                    (redis, memory) => return Err(format!("{redis:?} is not {memory:?}")),
                }
            }
            1 => {
                let some = self.some_leases();
                let redis = self.redis.renew(&some.0).await.unwrap();
                // Of leases of rates alone nothing is asked.
                if redis.at == StoreTime::ZERO {
                    return Ok(());
                }
                self.time.set(redis.at);
                same(&redis, &self.memory.renew(&some.1).await.unwrap())?;
            }
            2 => {
                let some = self.some_leases();
                let redis = self.redis.release(&some.0).await.unwrap();
                if redis.at == StoreTime::ZERO {
                    return Ok(());
                }
                self.time.set(redis.at);
                same(&redis, &self.memory.release(&some.1).await.unwrap())?;
            }
            3 => {
                let index = self.rng.usize(..self.blocks.len());
                let request = &mut self.blocks[index];
                request.used = self.rng.u32(0..=request.had);
                request.want = self.rng.u32(0..=8);
                request.waits = self.rng.bool();
                // The cap is lowered and raised by reloads.
                request.bound = number(if self.rng.u8(..4) == 0 { 3 } else { 8 });
                // Some come late.
                request.sequence += self.rng.u64(0..3);
                let redis = self.redis.reserve(request).await.unwrap();
                self.time.set(redis.at);
                same(&redis, &self.memory.reserve(request).await.unwrap())?;
                request.had = redis.units;
            }
            4 => {
                let (rate, most) = (self.rate(), self.rng.u32(1..5));
                let redis = self.redis.draw(&rate, most).await.unwrap();
                self.time.set(redis.at);
                same(&redis, &self.memory.draw(&rate, most).await.unwrap())?;
            }
            5 => {
                let request = LockRequest::new(self.locks[self.rng.usize(..3)].clone());
                same(&self.redis.lock(&request).await, &self.memory.lock(&request).await)?;
            }
            _ => {
                let lock = &self.locks[self.rng.usize(..3)];
                if self.rng.bool() {
                    same(&self.redis.unlock(lock).await, &self.memory.unlock(lock).await)?;
                } else {
                    same(&self.redis.extend(lock).await, &self.memory.extend(lock).await)?;
                }
            }
        }
        Ok(())
    }

    /// Some of the leases; those in the first half are forgotten, to be taken back by expiry.
    fn some_leases(&mut self) -> (Vec<Lease>, Vec<Lease>) {
        if self.leases.len() > 40 {
            self.leases.drain(..20);
        }
        let mut some = self.leases.clone();
        some.retain(|_| self.rng.u8(..3) == 0);
        some.into_iter().unzip()
    }
}

fn same<T: PartialEq + std::fmt::Debug>(redis: &T, memory: &T) -> Result<(), String> {
    if redis == memory { Ok(()) } else { Err(format!("{redis:?} is not {memory:?}")) }
}

#[tokio::test]
async fn random_operations_have_the_same_answers_on_both_stores() {
    let server = Server::start().await;
    let (runs, steps) = if soak() { (50, 20_000) } else { (5, 4_000) };
    let mut counts = [0; 7];
    for seed in 0..runs {
        server.ask(&["FLUSHALL"]).await.unwrap();
        let mut run = Run::new(Arc::new(server.store()), now(&server).await, seed);
        for step in 0..steps {
            if let Err(difference) = run.step().await {
                panic!("seed {seed}, step {step}: {difference}");
            }
        }
        counts.iter_mut().zip(run.counts).for_each(|(all, count)| *all += count);
    }
    let all: u64 = counts.iter().sum();
    println!("{all} operations, {counts:?} by kind, differences 0");
}

#[tokio::test]
async fn control_a_difference_would_be_found() {
    let server = Server::start().await;
    let mut run = Run::new(Arc::new(server.store()), now(&server).await, 1);
    // Somebody the oracle knows nothing of takes one place.
    let other =
        Request::new(Token::random().unwrap(), Claims::new(vec![cap("c0", 8)]).unwrap(), Duration::from_secs(60));
    run.redis.acquire(&other).await.unwrap();
    for _ in 0..4_000 {
        if run.step().await.is_err() {
            return;
        }
    }
    panic!("nothing was found");
}

//! The store of a single process, asked directly: any questions in any order, by four processes.

use std::{fmt::Write as _, num::NonZeroU32, sync::atomic::Ordering};

use fastrand::Rng;

use super::{millis, workers::keys};
use crate::{
    Acquired, AllotmentRequest, Claim, Claims, Lease, LockRequest, Locked, MemoryStore, Notice, RateMode, Request,
    Store, Token, clock_tests::Manual, kept_tests::assert_kept,
};

fn count(it: u32) -> NonZeroU32 {
    NonZeroU32::new(it).unwrap()
}

fn claims(rng: &mut Rng) -> Claims {
    let cap = |name: &str, bound| Claim::cap(keys().cap("a", "label", name), count(bound));
    let rate =
        |name: &str, bound, mode| Claim::rate(keys().rate("a", "label", name), count(bound), mode).every(millis(700));
    let mut claims = vec![cap("x", 5)];
    if rng.u8(..2) == 0 {
        claims.push(cap("y", 3));
    }
    if rng.u8(..3) == 0 {
        claims.push(rate("x", 7, RateMode::Window));
    }
    if rng.u8(..3) == 0 {
        claims.push(rate("y", 9, RateMode::Smooth { burst: count(2) }));
    }
    Claims::new(claims).unwrap()
}

/// Four processes with an allotment each, and leases of single requests.
struct Desk {
    store: MemoryStore,
    rng: Rng,
    leases: Vec<Lease>,
    allotments: Vec<AllotmentRequest>,
    lock: Vec<Locked>,
    text: String,
}

impl Desk {
    async fn step(&mut self) {
        let Self { store, rng, leases, allotments, lock, text } = self;
        match rng.u8(..12) {
            0..=2 => {
                let request = Request::new(Token::of(rng.u128(..)), claims(rng), millis(400));
                let request = if rng.bool() { request.waiting() } else { request };
                write!(
                    text,
                    "acquire {}{}: ",
                    request.claims.as_slice().len(),
                    if request.waits { ", waits" } else { "" }
                )
                .unwrap();
                match store.acquire(&request).await.unwrap() {
                    Acquired::Granted(lease) => {
                        text.push_str("granted");
                        leases.push(lease);
                    }
                    Acquired::Full(full) => write!(text, "claim {} in {:?}", full.claim, full.retry_after).unwrap(),
                }
            }
            3 if !leases.is_empty() => {
                let lease = leases.swap_remove(rng.usize(..leases.len()));
                write!(text, "release: {}", store.release(&[lease]).await.unwrap().held).unwrap();
            }
            4 => {
                let lost = store.renew(leases).await.unwrap().lost;
                write!(text, "renew {}: lost {lost:?}", leases.len()).unwrap();
            }
            5..=8 => {
                let request = &mut allotments[rng.usize(..4)];
                let used = rng.u32(..=request.had.min(3));
                // Now and then a question from before, which comes late.
                request.sequence += u64::from(rng.u8(..8) > 0);
                (request.used, request.need, request.want) = (used, used + rng.u32(..3), used + rng.u32(..6));
                request.waits = rng.u8(..3) == 0;
                let it = store.reserve(request).await.unwrap();
                let AllotmentRequest { used, need, want, had, waits, .. } = request;
                write!(text, "used {used}, needs {need}, wants {want}, had {had}, waits {waits}: ").unwrap();
                let wanted = if it.wanted { "wanted" } else { "" };
                write!(text, "{} {wanted} down to {}, over in {:?}", it.units, it.target, it.retry_after).unwrap();
                request.had = it.units;
            }
            9 => {
                let most = rng.u32(1..5);
                let mode = if rng.bool() { RateMode::Window } else { RateMode::Smooth { burst: count(4) } };
                let name = if mode == RateMode::Window { "p" } else { "q" };
                let rate = Claim::rate(keys().rate("a", "label", name), count(11), mode).every(millis(600));
                let it = store.draw(&rate, most).await.unwrap();
                write!(text, "draw {most} of {name}: {} {:?}", it.units, it.after).unwrap();
            }
            10 => {
                let lock = lock[rng.usize(..4)].clone();
                let request = LockRequest { queue: rng.bool(), waits: rng.bool(), ..LockRequest::new(lock) };
                write!(text, "lock, queue {}: {:?}", request.queue, store.lock(&request).await.unwrap()).unwrap();
            }
            _ => {
                let lock = &lock[rng.usize(..4)];
                let (how, held) = if rng.u8(..3) == 0 {
                    ("extend", store.extend(lock).await.unwrap())
                } else {
                    ("unlock", store.unlock(lock).await.unwrap())
                };
                write!(text, "{how}: {held}").unwrap();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_store_of_a_process_answers_as_is_kept() {
    let clock = Manual::default();
    let mut rng = Rng::with_seed(5);
    let key = keys().cap("a", "label", "x");
    let allotment = |token| AllotmentRequest::new(token, key.clone(), count(5), millis(300));
    let allotments = (0..4).map(|_| allotment(Token::of(rng.u128(..)))).collect();
    let lock = |token| Locked::new(keys().admission("a"), token, millis(150));
    let lock = (0..4).map(|_| lock(Token::of(rng.u128(..)))).collect();
    let store = MemoryStore::with_clock(clock.clone());
    let mut notices = store.notices();
    let mut desk = Desk { store, rng, leases: Vec::new(), allotments, lock, text: String::new() };
    // What is over is thrown away after a thousand questions, which changes no answer.
    for step in 0..2_400 {
        let passed = if step % 300 == 299 { 5_000_000 } else { desk.rng.u64(..40_000) };
        let now = clock.0.fetch_add(passed, Ordering::SeqCst) + passed;
        let shown = now as f64 / 1e3;
        write!(desk.text, "{shown:9.3} ").unwrap();
        let before = desk.text.len();
        desk.step().await;
        if desk.text.len() == before {
            desk.text.push('-');
        }
        while let Some(Some(notice)) = futures_now(notices.next()) {
            let (what, Notice::Freed(key) | Notice::Wanted(key)) = (matches!(notice, Notice::Freed(_)), notice) else {
                panic!("missed")
            };
            let (what, key) = (if what { "freed" } else { "wanted" }, key.rsplit(':').next().unwrap_or_default());
            write!(desk.text, " ({what} {key})").unwrap();
        }
        desk.text.push('\n');
        if step == 1_099 {
            desk.text.clear();
        }
    }
    assert_kept("src/diary_tests/counters.txt", &desk.text);
}

/// What a future answers at once, if it does.
fn futures_now<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(it) => Some(it),
        std::task::Poll::Pending => None,
    }
}

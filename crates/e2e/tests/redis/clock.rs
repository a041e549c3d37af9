//! A server whose clock jumps while something is held.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tower_admission::store::{
    AllotmentRequest, Claims, Leases, LockAnswer, LockRequest, Locked, RateMode, RedisStore, Store, Token,
};

use super::support::{acquire, cap, claims, eventually, keys, ms, number, rate, server::Server, shared};

const EXPIRY: Duration = ms(1_000);

/// Adds to the time of day what a file says, in seconds. `faketime` does not go with the allocator of the server.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    char text[32] = {0};
    int file = open(getenv("CLOCK_OFF"), O_RDONLY);
    if (file >= 0) { if (read(file, text, 31) < 0) text[0] = 0; close(file); }
    int result = syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += atol(text);
    return result;
}
int gettimeofday(struct timeval *time, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"#;

/// A server whose clock is off by as many seconds as a file says.
async fn server() -> (Server, PathBuf) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("clock-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [shim, source, off] = ["shim.so", "shim.c", "off"].map(|name| folder.join(name));
    std::fs::write(&source, SHIM).unwrap();
    std::fs::write(&off, "0").unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&shim).arg(&source).status();
    assert!(built.unwrap().success());
    (Server::with(&[], vec![("LD_PRELOAD", shim), ("CLOCK_OFF", off.clone())]).await, off)
}

/// Sets it without a moment in which the file is empty.
fn set(off: &Path, seconds: i64) {
    let next = off.with_extension("next");
    std::fs::write(&next, seconds.to_string()).unwrap();
    std::fs::rename(next, off).unwrap();
}

async fn count(store: &RedisStore, claims: &Claims) -> usize {
    let mut granted = 0;
    while acquire(store, claims, EXPIRY).await.is_ok() {
        granted += 1;
    }
    granted
}

/// What is held is kept, what the dead held is had after one expiry, and rates go on as they were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn that_goes_back_gives_nothing_twice_and_keeps_nothing_for_longer() {
    for back in [2, 3_600, 86_400] {
        let (server, off) = server().await;
        let store = server.store();
        let by =
            |local_shares| Leases::builder().expiry(EXPIRY).local_shares(local_shares).build(shared(server.store()));
        let [of_dead, of_living, shared_out] = ["dead", "living", "shared out"].map(|name| claims([cap(name, 4)]));
        let smooth = rate("smooth", 10, RateMode::Smooth { burst: number(3) }).every(Duration::from_secs(1));
        let [smooth, window] = [smooth, rate("window", 50, RateMode::Window).every(Duration::from_secs(1_000_000_000))]
            .map(|it| claims([it]));
        let (holders, newcomers) = ([by(false), by(true)], [by(false), by(true)]);
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(holders[0].admit(&of_living).await.unwrap());
            held.push(holders[1].wait(&shared_out).await.unwrap());
        }
        assert_eq!(count(&store, &of_dead).await, 4);
        // A process that wished for all of a cap, and is gone.
        let wished = claims([cap("wished for", 4)]);
        let mut wish =
            AllotmentRequest::new(Token::random().unwrap(), wished.as_slice()[0].key().clone(), number(4), EXPIRY);
        assert_eq!(count(&store, &wished).await, 4);
        (wish.need, wish.waits) = (4, true);
        store.reserve(&wish).await.unwrap();
        let queued = |name, expiry| {
            let mut request = LockRequest::new(Locked::new(keys().admission(name), Token::random().unwrap(), expiry));
            (request.queue, request.waits) = (true, true);
            request
        };
        let [holder, gone, next] = ["lock"; 3].map(|name| queued(name, Duration::from_secs(60)));
        assert_eq!(store.lock(&holder).await.unwrap(), LockAnswer::Taken);
        assert_eq!(store.lock(&gone).await.unwrap(), LockAnswer::Busy { ahead: 0 });
        assert_eq!((count(&store, &window).await, count(&store, &smooth).await), (50, 3));

        let seconds = async || server.seconds().await.cast_signed();
        let before = seconds().await;
        set(&off, -back);
        let jumped = Instant::now();
        assert!(seconds().await <= before - back + 1, "control: it went back");
        assert!(store.unlock(&holder.lock).await.unwrap());
        assert!(count(&store, &smooth).await <= 1, "it fills as before");
        let (mut taken, mut smoothly, mut of_wished) = (0, 0, Vec::new());
        while taken < 4 || smoothly < 5 || of_wished.len() < 4 || jumped.elapsed() < EXPIRY + ms(300) {
            assert!(jumped.elapsed() < 2 * EXPIRY, "{back}: {taken} of the dead, {smoothly}, {}", of_wished.len());
            for (newcomer, claims) in newcomers.iter().zip([&of_living, &shared_out]) {
                assert!(newcomer.admit(claims).await.is_err(), "{back}: beside four");
            }
            taken += count(&store, &of_dead).await;
            assert!(taken == 0 || jumped.elapsed() > EXPIRY / 2, "{back}: not before they expired");
            smoothly += count(&store, &smooth).await;
            of_wished.extend(newcomers[1].admit(&wished).await.ok());
            sleep(ms(10)).await;
        }
        assert_eq!((count(&store, &window).await, taken), (0, 4), "{back}");
        assert!(held.iter().all(|held| !held.is_lost()), "{back}");
        eventually("who stands in the queue and is gone is passed over", async || {
            store.lock(&next).await == Ok(LockAnswer::Taken)
        })
        .await;
        assert!(jumped.elapsed() < 4 * EXPIRY, "{back}");
        let _ = std::fs::remove_dir_all(off.parent().unwrap());
    }
}

//! What stands in keys, errors and `Debug`: names and hashes, nothing else.

use std::time::Duration;

use tower_admission::store::{
    AdmissionLock, Claim, Claims, Keys, Leases, LockCaller, RateMode, RedisStore, Store, Token,
};

use super::support::{ms, number, proxy::Proxy, request, server::Server, shared};

const PASSWORD: &str = "planted-password";
const API_KEY: &str = "planted-api-key";

async fn keys_in(server: &Server) -> String {
    format!("{:?}", server.read::<Vec<String>>(&["KEYS", "*"]).await)
}

/// Everything that writes a key, with names that are secrets.
async fn use_all(server: &Server, keys: &Keys) -> String {
    let store =
        shared(RedisStore::builder(&server.url(), keys.clone()).timeout(Duration::from_secs(5)).build().unwrap());
    let claim = Claim::cap(keys.cap(API_KEY, "label", API_KEY), number(1));
    let rate = Claim::rate(keys.rate(API_KEY, "label", API_KEY), number(9), RateMode::Window);
    let claims = Claims::new(vec![claim.clone(), rate]).unwrap();
    let mut seen = format!("{claims:?}");
    let leases = Leases::builder().local_shares(true).build(store.clone());
    let direct = request(&claims, ms(60_000)).waiting();
    // Once during the quiet time, once after it.
    seen += &format!("{:?}", store.acquire(&direct).await);
    server.end_quiet(keys.prefix()).await;
    seen += &format!("{:?}{:?}", store.acquire(&direct).await, store.acquire(&direct).await);
    seen += &format!("{:?}{leases:?}", leases.admit(&claims).await);
    let lock = AdmissionLock::builder().build(store.clone(), keys.clone());
    let guard = lock.acquire(LockCaller::new(API_KEY)).await.unwrap();
    seen += &format!("{guard:?}{lock:?}{:?}", lock.acquire(LockCaller::new(API_KEY).max_wait(ms(1))).await);
    seen += &format!("{store:?}{:?}", Token::random());
    seen + &keys_in(server).await
}

#[tokio::test]
async fn hashed_names_are_seen_nowhere() {
    let server = Server::start().await;
    let keys = Keys::new("planted").unwrap().hashed();
    let seen = use_all(&server, &keys).await;
    assert!(seen.contains("planted:{~") && seen.contains("planted:admission:~"), "{seen}");
    assert!(!seen.contains(API_KEY), "{seen}");
    let plain = use_all(&server, &Keys::new("plain").unwrap()).await;
    assert!(plain.contains(API_KEY), "control: it would be found");
}

#[tokio::test]
async fn passwords_are_seen_nowhere() {
    let server = Server::with_args(&["--user", "tester", "on", &format!(">{PASSWORD}"), "~*", "&*", "+@all"]).await;
    let good = format!("redis://tester:{PASSWORD}@127.0.0.1:{}/", server.port());
    let wrong = format!("redis://tester:{PASSWORD}-not@127.0.0.1:{}/", server.port());
    let unreadable = format!("redis://tester:{PASSWORD}@127.0.0.1:port/");
    let mut seen = String::new();
    for url in [&good, &wrong, &unreadable] {
        let builder = RedisStore::builder(url, Keys::new("test").unwrap()).timeout(ms(1_000));
        seen += &format!("{builder:?}");
        match builder.build() {
            Ok(store) => {
                let claims = Claims::new(vec![super::support::cap("x", 1)]).unwrap();
                let answer = store.acquire(&request(&claims, ms(100))).await;
                seen += &format!("{store:?}{answer:?}");
                seen += &answer.err().map_or_else(String::new, |error| error.to_string());
            }
            Err(error) => seen += &format!("{error:?}{error}"),
        }
    }
    assert!(seen.contains("can't be read") && seen.contains("Unable"), "control: there were errors: {seen}");
    assert!(!seen.contains(PASSWORD), "{seen}");
}

/// Numbers in `text` that may be the time of day: in seconds, milli- or microseconds since 1970.
fn times(text: &[u8]) -> usize {
    let numbers = text.split(|byte| !byte.is_ascii_digit());
    numbers.filter(|digits| matches!(digits.len(), 10 | 13 | 16) && matches!(digits[0], b'1' | b'2')).count()
}

/// Clocks of processes may be off by as much as they like: what they are is never told to the server.
#[tokio::test]
async fn no_time_of_day_is_sent() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port()).await;
    let store =
        RedisStore::builder(&proxy.url(), super::support::keys()).timeout(Duration::from_secs(5)).build().unwrap();
    server.end_quiet("test").await;
    let leases = Leases::builder().local_shares(true).build(shared(store.clone()));
    let claims = super::support::claims([
        super::support::cap("x", 9),
        super::support::rate("x", 9, RateMode::Smooth { burst: number(9) }),
    ]);
    let held = leases.admit(&claims).await.unwrap();
    store.acquire(&request(&claims, ms(60_000))).await.unwrap();
    let lock = AdmissionLock::builder().build(shared(store), super::support::keys());
    assert!(lock.acquire(LockCaller::new("acme")).await.unwrap().release().await.unwrap());
    drop(held);
    // Tokens are hexadecimal, so some of their digits may look like a time by chance; tell them apart by length.
    let sent = proxy.sent();
    let words = sent.split(|&byte| byte == b'\r' || byte == b'\n').filter(|word| word.iter().all(u8::is_ascii_digit));
    let sent: Vec<u8> = words.flat_map(|word| [word, b" "].concat()).collect();
    assert_eq!(times(&sent), 0, "{}", String::from_utf8_lossy(&sent));
    assert!(times(&proxy.answered()) > 0, "control: the server's answers have it");
}

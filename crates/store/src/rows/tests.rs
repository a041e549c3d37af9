//! The store of rows, on rows in memory: what it promises, and what it makes of rows that fail.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic just as the tests may")]

use std::{
    collections::HashMap,
    future::pending,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::{task::yield_now, time::Instant};

use super::*;
use crate::{Claims, Keys, RateMode, Token, contract};

/// How the next changes go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mood {
    Well,
    /// The step is called, and its rows are thrown away, as often as this before they are kept.
    Conflict(usize),
    Fail,
    Hang,
    /// Rows are read and written, and others may do so in between.
    Torn,
}

#[derive(Debug)]
struct Inside {
    rows: HashMap<Key, String>,
    mood: Mood,
    /// Most rows of a change.
    most: usize,
    since: Instant,
}

#[derive(Clone, Debug)]
struct Table(Arc<Mutex<Inside>>);

impl Table {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Inside { rows: HashMap::new(), mood: Mood::Well, most: 0, since: Instant::now() })))
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, mood: Mood) {
        self.inside().mood = mood;
    }
}

impl Rows for Table {
    fn change<'a>(&'a self, keys: &'a [Key], step: Step<'a>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            assert!(!keys.is_empty() && keys.is_sorted(), "rows are locked in one order");
            if self.inside().mood == Mood::Hang {
                pending::<()>().await;
            }
            let torn = {
                let inside = self.inside();
                (inside.mood == Mood::Torn).then(|| inside.rows.clone())
            };
            if torn.is_some() {
                yield_now().await;
            }
            let Inside { rows: table, mood, most, since } = &mut *self.inside();
            if let Some(torn) = torn {
                *table = torn;
            }
            *most = keys.len().max(*most);
            let read = || keys.iter().map(|key| table.get(key).cloned().unwrap_or_default()).collect::<Vec<_>>();
            if let Mood::Conflict(times) = *mood {
                (0..times).for_each(|_| step(since.elapsed(), &mut read()));
            }
            if *mood == Mood::Fail {
                return Err(StoreError::Unavailable);
            }
            let mut rows = read();
            step(since.elapsed(), &mut rows);
            for (key, row) in keys.iter().zip(rows) {
                if row.is_empty() {
                    table.remove(key)
                } else {
                    table.insert(key.clone(), row)
                };
            }
            Ok(())
        })
    }
}

fn request(names: &[&str]) -> Request {
    let keys = Keys::new("rows").unwrap();
    let claims = names.iter().map(|name| Claim::cap(keys.cap("a", "label", name), 1.try_into().unwrap()));
    Request::new(Token::random().unwrap(), Claims::new(claims.collect()).unwrap(), Duration::from_secs(60))
}

#[tokio::test(start_paused = true)]
async fn it_keeps_what_a_store_promises_also_where_transactions_are_tried_again() {
    for mood in [Mood::Well, Mood::Conflict(2)] {
        contract::check(async || {
            let table = Table::new();
            table.is(mood);
            Arc::new(RowStore::new(table)) as Arc<dyn Store>
        })
        .await
        .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_others_write_in_between_are_found() {
    let torn = async || {
        let table = Table::new();
        table.is(Mood::Torn);
        Arc::new(RowStore::new(table)) as Arc<dyn Store>
    };
    assert_eq!(contract::check(torn).await.unwrap_err().promise, "a cap holds, however many ask at once");
}

#[tokio::test(start_paused = true)]
async fn rows_that_fail_or_hang_are_a_store_that_is_gone_and_grant_nothing() {
    let table = Table::new();
    let store = RowStore::with_time_limit(table.clone(), Duration::from_millis(300));
    for (mood, error) in [
        (Mood::Fail, StoreError::Unavailable),
        (Mood::Hang, StoreError::TimedOut { after: Duration::from_millis(300) }),
    ] {
        table.is(mood);
        assert_eq!(store.acquire(&request(&["x"])).await.unwrap_err(), error);
        assert_eq!(store.health().as_str(), "failing");
        table.is(Mood::Well);
        let lease = match store.acquire(&request(&["x"])).await {
            Ok(Acquired::Granted(lease)) => lease,
            other => panic!("{other:?}"),
        };
        assert_eq!((store.health(), store.release(&[lease]).await.unwrap().held), (Health::Up, 1));
    }
    for row in ["{\"cap\":7}", "{\"caps\":{}}", "?"] {
        table.inside().rows.insert(request(&["x"]).claims().as_slice()[0].key().clone(), row.to_owned());
        assert_eq!(store.acquire(&request(&["x"])).await.unwrap_err(), StoreError::Refused("UNREADABLE".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn steps_are_small_and_rows_go_when_nothing_counts_any_more() {
    let table = Table::new();
    let store = RowStore::new(table.clone());
    let mut leases = Vec::new();
    for number in 0..200 {
        match store.acquire(&request(&["b", "a", &number.to_string()]).waiting()).await.unwrap() {
            Acquired::Granted(lease) => leases.push(lease),
            Acquired::Full(full) => assert_eq!((full.claim, leases.len()), (0, 1), "in the order of the claims"),
        }
    }
    for number in 0..200 {
        match store.acquire(&request(&[&format!("n{number}")])).await.unwrap() {
            Acquired::Granted(lease) => leases.push(lease),
            Acquired::Full(full) => panic!("{full:?}"),
        }
    }
    assert_eq!(store.renew(&leases).await.unwrap().lost, [0; 0]);
    table.is(Mood::Fail);
    assert!(store.renew(&leases).await.is_err(), "nothing is known of any of them");
    table.is(Mood::Well);
    assert_eq!(store.release(&leases).await.unwrap().held, 201);
    assert!(table.inside().most <= AT_ONCE + 2);
    let rate = Claim::rate(Keys::new("rows").unwrap().rate("a", "label", "r"), 1.try_into().unwrap(), RateMode::Window);
    let rated = Request::new(Token::random().unwrap(), Claims::new(vec![rate]).unwrap(), Duration::from_secs(60));
    match store.acquire(&rated).await.unwrap() {
        Acquired::Granted(lease) => assert_eq!(store.renew(&[lease]).await.unwrap().lost, [0; 0]),
        Acquired::Full(full) => panic!("{full:?}"),
    }
    assert!(table.inside().rows.len() <= 3, "wishes, and what was charged");
    tokio::time::sleep(Duration::from_secs(61)).await;
    let lease = match store.acquire(&request(&["a", "b"])).await.unwrap() {
        Acquired::Granted(lease) => lease,
        Acquired::Full(full) => panic!("{full:?}"),
    };
    store.release_later(PendingRelease::Lease(lease));
    while table.inside().rows.len() > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

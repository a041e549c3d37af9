//! What is made of the answers of a server, and of those that it does not give.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use redis::Value;
use tokio::time::Instant;

use super::{
    breaker::{Breaker, FAILURES, Trouble},
    debts::{Debts, Due},
    reply::{Reply, unexpected},
    script::{self, Call},
};
use crate::{AllotmentRequest, Health, Key, Keys, Locked, PendingRelease, StoreError, Token};

fn reply(items: Vec<Value>) -> Reply {
    Reply::read(Value::Array(items)).unwrap()
}

#[test]
fn an_answer_that_no_script_gives_is_an_error_and_never_a_grant() {
    for value in [Value::Nil, Value::Int(1), Value::Array(Vec::new()), Value::BulkString(b"ok".to_vec())] {
        assert_eq!(Reply::read(value).unwrap_err(), unexpected());
    }
    let word = |word| reply(vec![Value::Int(7), word]);
    assert_eq!(word(Value::BulkString(b"granted".to_vec())).word().unwrap(), b"granted");
    assert_eq!(word(Value::SimpleString("granted".to_owned())).word().unwrap(), b"granted");
    assert_eq!(word(Value::Int(1)).word().unwrap_err(), unexpected());
    assert_eq!(reply(vec![Value::Int(7)]).word().unwrap_err(), unexpected());
    let numbers = reply(vec![Value::Int(7), Value::Int(-1), Value::Int(3), Value::Int(4)]);
    assert_eq!(numbers.at().unwrap(), Duration::from_micros(7));
    assert_eq!(numbers.numbers(2).unwrap(), [3, 4]);
    assert_eq!(numbers.numbers(4).unwrap(), [0; 0]);
    assert_eq!(numbers.numbers(1).unwrap_err(), unexpected(), "no count is negative");
    assert_eq!(numbers.number::<u32>(4).unwrap_err(), unexpected());
    let restarted = |word| reply(vec![Value::Int(7), word, Value::Int(1_500)]);
    let error = StoreError::Restarted { retry_after: Duration::from_micros(1_500) };
    assert_eq!(restarted(Value::BulkString(b"restarted".to_vec())).word().unwrap_err(), error);
    assert_eq!(restarted(Value::SimpleString("restarted".to_owned())).word().unwrap_err(), error);
}

#[test]
fn an_error_says_whether_the_server_is_gone_grants_nothing_or_is_about_one_request() {
    let unable = |code: &str| StoreError::Unable(code.to_owned());
    let everything = ["CLUSTERDOWN", "LOADING", "MASTERDOWN", "NOAUTH", "WRONGPASS"].map(unable);
    let after = Duration::from_secs(1);
    for error in
        everything.into_iter().chain([StoreError::ReadOnly, StoreError::TimedOut { after }, StoreError::Unavailable])
    {
        assert_eq!((error.trouble(), error.may_be_of_one_key()), (Some(Trouble::Everything), false), "{error}");
    }
    for error in ["BUSY", "MISCONF", "NOREPLICAS", "OOM", "UNKILLABLE"].map(unable) {
        assert_eq!((error.trouble(), error.may_be_of_one_key()), (Some(Trouble::Decisions), false), "{error}");
    }
    let error = unable("WRONGTYPE");
    assert_eq!((error.trouble(), error.may_be_of_one_key()), (Some(Trouble::Request), true));
    let refused = StoreError::Refused("WRONGTYPE".to_owned());
    assert_eq!((refused.trouble(), refused.may_be_of_one_key()), (None, true));
    let others = [
        StoreError::BreakerOpen,
        StoreError::Configuration("x".to_owned()),
        StoreError::NoRandomness,
        StoreError::Restarted { retry_after: after },
    ];
    for error in others {
        assert_eq!((error.trouble(), error.may_be_of_one_key()), (None, false), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_counts_failures_and_refusals_in_a_row_alone() {
    let now = Instant::now();
    let mut breaker = Breaker::new();
    assert_eq!((breaker.admits(false), breaker.admits(true)), (Some(0), Some(0)));
    for failures in 1..FAILURES {
        assert!(!breaker.failed(now, 0));
        assert_eq!(breaker.health(now), Health::Failing { failures });
    }
    assert!(!breaker.refused(now, true), "an answer, if only an error");
    assert_eq!((breaker.health(now), breaker.admits(false)), (Health::Failing { failures: 1 }, Some(1)));
    for refusals in 2..FAILURES {
        assert!(!breaker.refused(now, true));
        assert_eq!(breaker.health(now), Health::Failing { failures: refusals });
    }
    assert!(breaker.refused(now, true));
    assert!(!breaker.refused(now, true), "it opens once");
    assert_eq!(breaker.health(now), Health::Down { since: Duration::ZERO, probes: 0 });
    breaker.served(true);
    assert!(breaker.is_open(), "upkeep is no decision");
    breaker.probe_failed(true);
    breaker.probe_failed(false);
    assert_eq!(breaker.health(now), Health::Down { since: Duration::ZERO, probes: 2 });
    assert_eq!(breaker.admits(true), None, "the server does not even answer");
    breaker.recovered();
    assert_eq!((breaker.health(now), breaker.admits(false)), (Health::Up, Some(FAILURES as u64 + 3)));
    assert!(!breaker.failed(now, 1), "a request from before, while others were answered since");
    assert_eq!(breaker.health(now), Health::Up);
}

#[test]
fn a_probe_is_beside_what_was_asked_for() {
    let keys = Keys::new("a:b").unwrap();
    for (key, probe) in [
        (keys.cap("acme", "label", "x"), "a:b:{acme}:probe"),
        (keys.rate("", "group", "{y}"), "a:b:{default}:probe"),
        (keys.admission("{acme}"), "a:b:{a:b:admission:%7Bacme%7D}:probe"),
    ] {
        let call = Call::new(&script::RELEASE).key(key.as_str()).key("a:b:{other}:cap:label:x");
        assert_eq!(call.beside("a:b", "probe"), probe);
    }
}

fn allotment(sequence: u64) -> PendingRelease {
    let key: Key = Keys::new("adm").unwrap().cap("a", "label", "x");
    let first = AllotmentRequest::new(Token::random().unwrap(), key, NonZeroU32::MIN, Duration::from_secs(1));
    PendingRelease::Allotment(AllotmentRequest { sequence, ..first })
}

fn lock() -> PendingRelease {
    let key = Keys::new("adm").unwrap().admission("a");
    PendingRelease::Lock(Locked::new(key, Token::random().unwrap(), Duration::from_secs(1)))
}

#[tokio::test(start_paused = true)]
async fn debts_are_paid_while_that_is_worth_it_and_keep_the_client_until_then() {
    let (now, second) = (Instant::now(), Duration::from_secs(1));
    let anchor = Arc::new(());
    let mut debts = Debts::default();
    assert!(debts.is_empty() && debts.weigh_anchor(false).is_none());
    for (debt, seconds) in [(lock(), 1), (lock(), 2), (lock(), 3), (allotment(1), 1), (allotment(1), 3)] {
        debts.owe(Due { debt, until: now + second * seconds }, now, &anchor);
    }
    assert!(!debts.is_empty() && Arc::strong_count(&anchor) == 2);
    assert!(debts.weigh_anchor(false).is_none(), "there are debts");
    // Of two allotments and three locks, one of each is over at this moment.
    let mut paid = Vec::new();
    for most in [1, 1, 1, 9] {
        let due = debts.due(most, now + second);
        assert!(due.len() <= most, "{due:?}");
        paid.extend(due);
    }
    assert_eq!((paid.len(), debts.is_empty(), debts.is_put_off()), (3, true, false), "{paid:?}");
    debts.put_off(paid);
    assert!(debts.is_put_off() && !debts.is_empty());
    assert!(debts.due(9, now).is_empty(), "not before they are tried again");
    debts.retry(now + second * 2);
    assert!(!debts.is_put_off());
    assert_eq!(debts.due(9, now + second * 2).len(), 2, "one was over by then");
    assert!(debts.is_empty() && debts.weigh_anchor(false).is_some() && debts.weigh_anchor(false).is_none());
    debts.owe(Due { debt: lock(), until: now + second }, now, &anchor);
    assert!(debts.weigh_anchor(true).is_some(), "no task is there to pay");
}

#[tokio::test(start_paused = true)]
async fn debts_that_are_over_take_no_room() {
    let (now, second) = (Instant::now(), Duration::from_secs(1));
    let anchor = Arc::new(());
    let mut debts = Debts::default();
    for step in 0..1_000 {
        let now = now + second * step;
        for debt in [lock(), allotment(1)] {
            debts.owe(Due { debt, until: now + second }, now, &anchor);
        }
    }
    // Asked as of the beginning, none would be over.
    let left = debts.due(usize::MAX, now);
    let locks = left.iter().filter(|due| matches!(due.debt, PendingRelease::Lock(_))).count();
    assert_eq!(locks, 1, "those at the front go first");
    assert!((1..=66).contains(&(left.len() - locks)), "{} allotments are looked through now and then", left.len());
}

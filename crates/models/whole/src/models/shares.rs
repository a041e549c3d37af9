//! Processes that admit from their local shares of a cap, and return them.

use std::{num::NonZeroU32, sync::Arc};

use super::{bounds, of};
use crate::{
    explore::{Inside, block_on, explore, thread},
    store::{Acquired, Claim, Claims, Keys, Leases, MemoryStore, Request, Store, Token},
    tokio_here::time::pass,
};

fn claims(cap: u32) -> Claims {
    let key = Keys::new("model").expect("a good prefix").cap("", "class", "cap");
    Claims::new(vec![Claim::cap(key, NonZeroU32::new(cap).expect("a bound"))]).expect("good claims")
}

/// Asserts that the store has all units again, by taking them.
fn all_are_back(store: &MemoryStore, cap: u32) {
    // Wishes of waiters that are gone are forgotten by then, and no allotment has expired.
    pass(super::ms(1_000));
    for _ in 0..cap {
        let request = Request::new(Token::random().expect("randomness"), claims(cap), super::ms(10_000));
        let answer = block_on(store.acquire(&request)).expect("memory answers");
        assert!(matches!(answer, Acquired::Granted(_)), "all units are back");
    }
}

/// `processes` processes with `threads` threads each, over one store.
fn race(name: &str, cap: u32, (processes, threads, rounds): (usize, usize, usize), preemptions: usize) {
    explore(name, bounds(preemptions, 300), move || {
        let (store, inside) = (MemoryStore::new(), Inside::new(cap as usize));
        let processes: Vec<_> = (0..processes as u64)
            .map(|seed| Leases::builder().local_shares(true).seed(seed).build(Arc::new(store.clone())))
            .collect();
        let mut running = Vec::new();
        for leases in &processes {
            for _ in 0..threads {
                let (leases, inside) = (leases.clone(), Arc::clone(&inside));
                running.push(thread::spawn(move || {
                    for _ in 0..rounds {
                        // Where the cap is used up, the request is refused.
                        if let Ok(held) = block_on(Box::pin(leases.admit(&claims(cap)))) {
                            inside.enter();
                            thread::yield_now();
                            inside.leave();
                            drop(held);
                        }
                    }
                }));
            }
        }
        running.into_iter().for_each(|it| it.join().expect("it ends"));
        assert!(processes.iter().all(|it| it.lost() == 0), "no unit is lost");
        drop(processes);
        all_are_back(&store, cap);
    });
}

/// Two processes with a thread each want the only unit.
pub fn a_cap_holds_over_local_shares() {
    race("a_cap_holds_over_local_shares", of(1, 3) as u32, (2, of(1, 4), of(1, 3)), 3);
}

/// Requests of one process share what it holds.
pub fn no_unit_of_a_local_share_is_used_twice() {
    race("no_unit_of_a_local_share_is_used_twice", 1, (1, of(2, 8), of(1, 3)), 2);
}

/// A process returns units while another one waits for them: what it returns it does not use.
pub fn what_is_returned_is_not_used() {
    explore("what_is_returned_is_not_used", bounds(2, 2_000).without_handle(), || {
        let (store, inside, cap) = (MemoryStore::new(), Inside::new(2), 2);
        let leases = |seed| Leases::builder().local_shares(true).seed(seed).build(Arc::new(store.clone()));
        let (holder, other) = (leases(0), leases(1));
        let first = block_on(Box::pin(holder.admit(&claims(cap)))).expect("a unit is free");
        let second = block_on(Box::pin(holder.admit(&claims(cap)))).expect("a unit is free");
        (inside.enter(), inside.enter());
        // The store notes that the other process waits, and tells the holder with its next answer.
        let wanted = claims(cap);
        assert!(super::poll_once(&mut Box::pin(other.wait(&wanted))).is_pending());
        assert!(block_on(Box::pin(holder.admit(&wanted))).is_err());
        let mut threads = Vec::new();
        for held in [first, second] {
            let inside = Arc::clone(&inside);
            threads.push(thread::spawn(move || {
                inside.leave();
                drop(held);
            }));
        }
        for leases in [&holder, &other].iter().cycle().take(of(2, 8)) {
            let (leases, inside) = ((*leases).clone(), Arc::clone(&inside));
            threads.push(thread::spawn(move || {
                if let Ok(held) = block_on(Box::pin(leases.admit(&claims(2)))) {
                    inside.enter();
                    thread::yield_now();
                    inside.leave();
                    drop(held);
                }
            }));
        }
        threads.into_iter().for_each(|it| it.join().expect("it ends"));
        drop((holder, other));
        all_are_back(&store, cap);
    });
}

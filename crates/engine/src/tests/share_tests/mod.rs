//! A share is as good as a server of its own: calm partitions beside floods, next to the same arrivals on a server that has
//! exactly their share of the slots and refuses at once.
//!
//! `--nocapture` prints the table. `SHARES=1000` draws so many cases of the grammar.

mod bench;

use self::bench::{Bench, Callers, Figures, Setup, Tenant};
use crate::{plan::PartitionMode, shares::WHOLE, tests::Dice};

/// Limits and numbers of partitions.
const SIZES: [(usize, usize); 15] = [
    (4, 4),
    (8, 4),
    (12, 4),
    (20, 4),
    (40, 4),
    (40, 10),
    (48, 4),
    (49, 4),
    (50, 4),
    (50, 10),
    (52, 4),
    (100, 20),
    (200, 4),
    (200, 20),
    (1_000, 10),
];

/// A partition that floods, and others that need 60 % of their shares.
fn beside_a_flood(limit: usize, partitions: usize, callers: Callers) -> Setup {
    let part = WHOLE / u32::try_from(partitions).unwrap();
    let tenant = |callers| Tenant { part, mode: PartitionMode::Burst, callers, load: 0.6 };
    let mut tenants = vec![tenant(callers); partitions];
    tenants[0].callers = Callers::Flood;
    Setup { limit, tenants, waits: true, seed: 1 }
}

fn run(setup: &Setup) -> Figures {
    // The fewer requests there are, the more of the difference is chance.
    let seconds = match setup.limit {
        ..20 => 120,
        20..=100 => 20,
        _ => 6,
    };
    let it = Bench::new(setup).run(seconds);
    println!(
        "{:5} {:3} {:9?} {}: {:6} asked, refused {:5.1} (own {:5.1}, worst {:+5.1}), in a row {:3} (own {:3}), used {:5.1}, waits p50 {:4.1} p99 {:5.1}",
        setup.limit,
        setup.tenants.len(),
        setup.tenants[setup.tenants.len() - 1].callers,
        if setup.waits { "room" } else { "none" },
        it.asked,
        it.refused,
        it.own_refused,
        it.worst,
        it.row,
        it.own_row,
        it.used,
        it.wait_p50,
        it.wait_p99,
    );
    it
}

#[test]
fn a_share_is_as_good_as_a_server_of_its_own() {
    for callers in Callers::CALM {
        for (limit, partitions) in SIZES {
            let it = run(&beside_a_flood(limit, partitions, callers));
            let (more, used) = if limit < 20 { (2.0, 96.0) } else { (0.5, 98.0) };
            assert!(it.refused <= it.own_refused + more, "{limit} {partitions} {callers:?}: {it:?}");
            assert!(it.used >= used, "{limit} {partitions} {callers:?}: {it:?}");
            // Five at once need a tenth of the slots of fifty.
            let wait = if callers == Callers::Waves { 50.0 } else { 22.0 };
            assert!(limit < 50 || it.wait_p99 <= wait, "{limit} {partitions} {callers:?}: {it:?}");
        }
    }
}

#[test]
fn where_all_partitions_flood_their_requests_hardly_wait() {
    for (limit, partitions) in SIZES {
        for random in [false, true] {
            let mut setup = beside_a_flood(limit, partitions, Callers::Flood);
            // A partition that nearly never asks makes the times exponential.
            setup.tenants[partitions - 1].callers = if random { Callers::Poisson } else { Callers::Flood };
            setup.tenants[partitions - 1].load = if random { 0.01 } else { 1.0 };
            let it = run(&setup);
            assert!(it.wait_p50 <= 40.0, "{limit} {partitions}: {it:?}");
        }
    }
}

#[test]
fn callers_that_cannot_wait_have_a_reserve_and_none_is_shut_out() {
    for callers in [Callers::Together, Callers::Jittered] {
        // Callers that come less often than a slot is held find what others leave: waves, and those with a share of one slot.
        for (limit, partitions) in SIZES.into_iter().filter(|&(limit, _)| limit > 4) {
            let it = run(&Setup { waits: false, ..beside_a_flood(limit, partitions, callers) });
            // Callers at the same instants need more at once than callers at random do; what there is goes round.
            let is_fair = it.worst < it.refused - it.own_refused + 30.0;
            assert!(it.worst < 90.0 && is_fair, "{limit} {partitions} {callers:?}: {it:?}");
        }
    }
}

/// Where slots are lent to requests that take fifteen times as long, they come back too late for bursts; where the callers of
/// these leave, nothing is lent.
#[test]
fn abandoned_work_borrows_nothing() {
    for (limit, partitions) in SIZES.into_iter().filter(|&(limit, _)| limit >= 20) {
        for callers in [Callers::Jittered, Callers::Poisson] {
            let mut setup = beside_a_flood(limit, partitions, callers);
            setup.tenants[0].callers = Callers::LongFlood { leaves: false };
            let lent = run(&setup);
            setup.tenants[0].callers = Callers::LongFlood { leaves: true };
            let it = run(&setup);
            assert!(it.refused <= it.own_refused + 1.0, "{limit} {partitions} {callers:?}: {it:?}");
            assert!(it.refused <= lent.refused + 0.5, "{limit} {partitions} {callers:?}: {it:?} {lent:?}");
        }
    }
}

/// Any tenants: sizes, loads, callers, caps, and up to a third of them that flood.
fn draw(seed: u64) -> Setup {
    let mut numbers = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut dice = |sides: u64| (numbers.next() >> 11) % sides;
    let partitions = 2 + dice(12) as usize;
    let limit = partitions * (5 + dice(20) as usize);
    let weights: Vec<u64> = (0..partitions).map(|_| 1 + dice(6)).collect();
    let whole: u64 = weights.iter().sum();
    let floods = 1 + dice(partitions as u64 / 3 + 1) as usize;
    let mut tenants: Vec<Tenant> = weights
        .iter()
        .enumerate()
        .map(|(number, weight)| Tenant {
            part: (u64::from(WHOLE) * weight / whole) as u32,
            mode: if dice(6) == 0 { PartitionMode::HardCap } else { PartitionMode::Burst },
            callers: if number < floods { Callers::Flood } else { Callers::CALM[dice(4) as usize] },
            load: 0.1 + dice(80) as f64 / 100.0,
        })
        .collect();
    tenants[0].part += WHOLE - tenants.iter().map(|it| it.part).sum::<u32>();
    Setup { limit, tenants, waits: true, seed }
}

#[test]
fn a_share_is_as_good_as_a_server_of_its_own_in_drawn_cases() {
    let cases = std::env::var("SHARES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(40);
    let first = std::env::var("FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(1);
    let mut worse = 0;
    for seed in first..first + cases {
        let setup = draw(seed);
        let it = run(&setup);
        assert!(it.refused <= it.own_refused + 1.0, "seed {seed}: {it:?} of {setup:?}");
        worse += u64::from(it.refused > it.own_refused + 0.5);
    }
    println!("{worse} of {cases} cases were refused more than half a point more than on servers of their own");
}

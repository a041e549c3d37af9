//! What an operator is shown of a server's life, against what is kept beside this file.
//!
//! Each story is some seconds of a busy server, with the same calls each time. After each second it says what became of the
//! requests, and at some moments all that can be seen from outside: the health, the limit, partitions, labels, waiters, the
//! journal. What changed there changed for a reader of the introspection, too. Where it should, write the files anew, and read
//! the difference:
//!
//! ```text
//! UPDATE_SNAPSHOTS=1 cargo test --workspace --all-features --lib story_tests
//! ```

mod clients;
mod lent;
mod plans;
mod shown;

use std::time::Duration;

use clients::Clients;

use crate::{StoreState, kept_tests::assert_kept, plan::Mode};

fn keep(file: &str, clients: &Clients) {
    assert_kept(&format!("src/tests/story_tests/{file}"), &clients.told);
}

#[test]
fn what_is_shown_of_partitions_labels_and_rules_under_load_is_what_is_kept() {
    let mut clients = Clients::new(plans::with_rules(12, 14));
    clients.seconds(3, 60);
    clients.seconds(4, 150);
    clients.look();
    clients.report_workers(&[("a", 3), ("b", 1), ("c", 0)]);
    clients.seconds(6, 150);
    clients.look();
    clients.reload(plans::with_rules(7, 5));
    clients.seconds(8, 120);
    clients.look();
    clients.seconds(12, 15);
    clients.set_mode(Mode::Observe);
    clients.seconds(5, 150);
    clients.look();
    clients.set_mode(Mode::Enforce);
    clients.seconds(2, 150);
    clients.close(true);
    clients.seconds(1, 80);
    clients.look();
    keep("rules.txt", &clients);
}

#[test]
fn what_is_shown_where_no_request_waits_and_slots_are_kept_is_what_is_kept() {
    let mut clients = Clients::new(plans::that_sheds());
    clients.seconds(4, 90);
    clients.look();
    clients.seconds(8, 300);
    clients.look();
    clients.is_slow = true;
    clients.seconds(10, 200);
    clients.look();
    clients.is_slow = false;
    clients.seconds(15, 25);
    clients.look();
    clients.seconds(6, 400);
    clients.look();
    clients.set_mode(Mode::Off);
    clients.seconds(2, 100);
    clients.look();
    clients.set_mode(Mode::Enforce);
    clients.seconds(2, 300);
    clients.close(false);
    clients.look();
    keep("sheds.txt", &clients);
}

#[test]
fn what_is_shown_of_few_entries_for_many_labels_is_what_is_kept() {
    let mut clients = Clients::new(plans::with_few_entries());
    clients.names = 14;
    clients.seconds(5, 100);
    clients.look();
    clients.seconds(8, 220);
    clients.look();
    clients.names = 3;
    clients.seconds(12, 40);
    clients.look();
    clients.names = 9;
    clients.is_impatient = true;
    clients.seconds(8, 200);
    clients.look();
    clients.seconds(30, 4);
    clients.look();
    keep("entries.txt", &clients);
}

#[test]
fn what_is_shown_of_rules_in_a_store_that_comes_and_goes_is_what_is_kept() {
    let mut clients = Clients::new(plans::with_shared_rules());
    clients.seconds(4, 80);
    clients.look();
    clients.tell_store(StoreState::Failing, Duration::ZERO);
    clients.seconds(3, 120);
    clients.look();
    clients.tell_store(StoreState::Down, Duration::ZERO);
    clients.seconds(8, 120);
    clients.look();
    clients.tell_store(StoreState::Up, Duration::from_secs(8));
    clients.seconds(4, 100);
    clients.look();
    clients.store_takes = 1_500;
    clients.seconds(15, 60);
    clients.look();
    keep("store.txt", &clients);
}

#[test]
fn what_is_shown_of_a_line_that_turns_around_is_what_is_kept() {
    for (file, plan) in [("lifo.txt", plans::adaptive_lifo()), ("credit.txt", plans::burst_credit())] {
        let mut clients = Clients::new(plan);
        clients.seconds(2, 60);
        clients.look();
        clients.seconds(5, 260);
        clients.look();
        clients.seconds(6, 10);
        clients.seconds(1, 300);
        clients.look();
        clients.is_slow = true;
        clients.seconds(4, 100);
        clients.look();
        keep(file, &clients);
    }
}

#[test]
fn what_is_shown_of_a_noisy_neighbour_is_what_is_kept() {
    let mut clients = Clients::new(plans::with_a_neighbour(10, 1));
    clients.seconds(3, 40);
    clients.is_noisy = true;
    clients.seconds(8, 330);
    clients.look();
    clients.reload(plans::with_a_neighbour(10, 4));
    clients.seconds(6, 330);
    clients.look();
    clients.is_noisy = false;
    clients.seconds(5, 190);
    clients.look();
    clients.seconds(12, 30);
    clients.look();
    keep("neighbour.txt", &clients);
}

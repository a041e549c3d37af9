//! Each model finds the mistakes that it is there for.

use std::{env, process::Command};

use admission_models_whole::{
    explore::making,
    models::{breaker, drivers, permits, settings, shares, turns},
};

/// Says to a process which test's mistake it makes.
const MAKES: &str = "MODELS_MAKE";

/// Asserts that a model fails with a mistake, and that it says so with one of these words.
///
/// The model runs in a process of its own: where an explorer finds a deadlock it can't unwind its threads, and ends.
fn is_found(test: &str, mistake: &'static str, words: &[&str], model: impl FnOnce()) {
    if env::var(MAKES).is_ok_and(|it| it == test) {
        return making(mistake, model);
    }
    let this = env::current_exe().expect("this program");
    // A backtrace does not fit on the stack of a thread under loom.
    let mut again = Command::new(this);
    again.args(["--exact", test, "--nocapture", "--include-ignored"]).env(MAKES, test).env("RUST_BACKTRACE", "0");
    let ran = again.output().expect("it runs");
    let text = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success(), "the mistake is not found: {text}");
    let found = text.lines().find(|line| words.iter().any(|it| line.contains(it)));
    let found = found.unwrap_or_else(|| panic!("none of {words:?} is in: {text}"));
    println!("found: {test}: {found}");
}

/// Each of these is a test that the model fails with the mistake of this name.
macro_rules! found {
    ($($(#[$how:meta])* $test:ident $(= $mistake:ident)?: $models:ident::$model:ident, $($words:literal)|+;)+) => {
        $($(#[$how])* #[test] fn $test() {
            let mistake = [$(stringify!($mistake),)? stringify!($test)][0];
            is_found(stringify!($test), mistake, &[$($words),+], $models::$model);
        })+
    };
}

found! {
    registers_its_waker_in_a_second_turn: turns::no_wake_up_is_lost, "deadlock";
    leaves_its_place_behind: turns::a_waiter_that_cancels_hands_on_what_it_was_granted, "deadlock" | "runs or waits";
    keeps_a_waker_that_is_old: turns::a_waiter_that_moves_is_woken_where_it_is, "deadlock";
    decides_without_a_look_at_the_lanes:
        settings::a_reload_that_shrinks_the_limit_holds_for_requests_that_come_after_it,
        "this one is admitted" | "deadlock";
    tells_no_request_to_drain: settings::a_drain_ends, "deadlock";
    leaves_its_slot_on_no_shelf: permits::a_slot_is_kept_until_work_and_request_have_ended, "is kept";
    moves_in_while_a_request_is_there: permits::an_arena_is_not_used_again_while_a_request_is_there,
        "its own" | "nothing of the second" | "overflow" | "runs or waits";
    rings_for_drivers_that_listen_only: drivers::an_earlier_end_reaches_a_driver_that_goes_to_sleep, "deadlock";
    ends_and_wakes_no_waiter: drivers::waits_end_in_time_though_the_runtime_of_a_driver_ends, "deadlock";
    uses_what_it_returns: shares::what_is_returned_is_not_used, "requests run" | "is lost" | "are back";
    takes_an_older_answer: shares::what_is_returned_is_not_used, "requests run" | "is lost" | "are back";
    looks_and_takes_in_two_steps: shares::no_unit_of_a_local_share_is_used_twice, "requests run";
    blames_the_server_for_old_failures: breaker::a_server_that_answers_is_not_gone, "before the answer";
    admits_permits_without_a_look_at_the_lanes = decides_without_a_look_at_the_lanes:
        permits::a_permit_ends_on_another_thread, "runs or waits";
    // With as many threads as under shuttle, the engine admits all of them there, and the mistake is one of lent slots.
    #[cfg(not(feature = "shuttle"))]
    gives_a_slot_back_twice: permits::a_body_ends_on_another_thread, "overflow" | "runs or waits" | "counted once";
    #[cfg(not(feature = "shuttle"))]
    #[ignore = "takes minutes: it is run at night"]
    gives_the_slot_of_a_permit_back_twice = gives_a_slot_back_twice:
        permits::a_permit_ends_on_another_thread, "overflow" | "runs or waits" | "counted once";
}

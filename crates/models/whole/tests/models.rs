//! Each model holds for the shipped library.

#[cfg(feature = "shuttle")]
use admission_models_whole::models::crowd;
use admission_models_whole::models::{breaker, drivers, permits, settings, shares, turns};

/// Each of these is a test, and the model of the same name.
macro_rules! hold {
    ($($models:ident: $($model:ident),+;)+) => {
        $($(#[test] fn $model() { $models::$model(); })+)+
    };
}

hold! {
    breaker: a_server_that_answers_is_not_gone;
    drivers: a_wait_ends_in_time_whenever_its_driver_starts, an_earlier_end_reaches_a_driver_that_goes_to_sleep,
        waits_end_in_time_though_the_runtime_of_a_driver_ends;
    permits: a_permit_ends_on_another_thread, a_body_ends_on_another_thread,
        a_slot_is_kept_until_work_and_request_have_ended, an_arena_is_not_used_again_while_a_request_is_there;
    settings: a_reload_that_shrinks_the_limit_holds_for_requests_that_come_after_it,
        a_reload_that_grows_the_limit_wakes_waiters, a_drain_ends;
    shares: a_cap_holds_over_local_shares, no_unit_of_a_local_share_is_used_twice, what_is_returned_is_not_used;
    turns: no_wake_up_is_lost, a_waiter_that_cancels_hands_on_what_it_was_granted,
        a_waiter_that_moves_is_woken_where_it_is;
}

#[cfg(feature = "shuttle")]
hold! {
    crowd: a_crowd_is_served;
}

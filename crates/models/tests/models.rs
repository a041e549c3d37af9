//! Each model holds for the shipped files.

use admission_models::{
    Mistake,
    runtime::shipped::models::{labels, lane_states, rings, standing_refusals, turns, two_lanes},
};

/// Each of these is a test, and the model of the same name.
macro_rules! hold {
    ($($models:ident: $($model:ident($($argument:expr)?)),+;)+) => {
        $($(#[test] fn $model() { $models::$model($($argument)?); })+)+
    };
}

hold! {
    lane_states: no_more_run_than_are_lent(), what_is_used_and_what_comes_back_is_what_was_lent(), fewer_are_lent_again(),
        a_request_that_gives_up_leaves_no_trace(), a_request_is_taken_out_once();
    turns: the_limit_holds_whatever_races(), a_smaller_limit_holds_at_once(), no_wake_up_is_lost(Mistake::None),
        a_waiter_that_cancels_gives_back_what_it_was_handed(Mistake::None),
        a_request_that_is_taken_over_is_counted_once(), each_request_is_counted_once(),
        each_sample_is_learned(), each_request_is_learned_or_counted(), nothing_is_left_behind_when_the_last_slot_is_taken_over(),
        the_limit_holds_across_lanes(), a_request_that_is_observed_is_learned_once();
    standing_refusals: each_rejection_is_counted_once(), what_was_withdrawn_is_not_taken();
    labels: a_request_enters_the_lane_of_its_own_label(), a_smaller_limit_holds_in_the_lane_of_a_label();
    two_lanes: a_free_slot_in_another_lane_is_found(), a_smaller_limit_holds_in_both_lanes(),
        a_request_that_tries_both_lanes_is_counted_once(), no_wake_up_is_lost_between_lanes();
    rings: a_sample_is_read_whole_or_not_yet(), a_run_of_untimed_successes_is_counted_once(),
        a_later_lap_does_not_mix_with_what_is_read(),
        two_that_write_at_the_same_place_do_not_mix(), no_sample_is_taken_twice(true);
}

//! Each model finds the mistakes that it is there for.

use std::panic::{AssertUnwindSafe, catch_unwind};

use admission_models::{Mistake, runtime as copies};
use copies::shipped::models::{rings, turns};

/// Asserts that a model fails, and that it says so with one of these words.
fn is_found(words: &[&str], model: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(model)).expect_err("the mistake is not found");
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    let text = text.expect("a panic with a text");
    println!("found: {text}");
    assert!(words.iter().any(|it| text.contains(it)), "none of {words:?} is in: {text}");
}

/// Each of these is a test that a copy with the mistake of this name fails the model.
macro_rules! found {
    ($($test:ident: $copy:ident, $models:ident::$model:ident($($argument:expr)?), $($words:literal)|+;)+) => {
        $(#[test] fn $test() {
            is_found(&[$($words),+], || copies::$copy::models::$models::$model($($argument)?));
        })+
    };
}

found! {
    entering_without_a_look_at_the_answer_is_found:
        enters_without_a_look_at_the_answer, lane_states::no_more_run_than_are_lent(), "requests run";
    entering_a_closed_lane_is_found:
        enters_without_a_look_at_the_answer, lane_states::what_is_used_and_what_comes_back_is_what_was_lent(),
        "requests run" | "is used";
    forgetting_to_undo_is_found:
        forgets_to_undo, lane_states::a_request_that_gives_up_leaves_no_trace(), "nothing runs" | "state counts";
    opening_with_a_store_is_found:
        opens_with_a_store, lane_states::fewer_are_lent_again(), "nothing runs" | "state counts" | "is lost";
    leaving_with_a_store_is_found:
        leaves_with_a_store, lane_states::what_is_used_and_what_comes_back_is_what_was_lent(),
        "nothing runs" | "state counts" | "is lost" | "requests run" | "is used";
    taking_out_without_the_slot_is_found:
        takes_out_without_the_slot, lane_states::a_request_is_taken_out_once(), "is lost" | "requests run";
    recalling_from_an_open_lane_is_found:
        recalls_from_an_open_lane, turns::the_limit_holds_whatever_races(), "requests run";
    opening_without_what_was_called_back_is_found:
        opens_without_what_was_called_back, turns::the_limit_holds_whatever_races(), "requests run";
    a_limit_that_shrinks_and_slots_that_stay_are_found:
        opens_without_what_was_called_back, turns::a_smaller_limit_holds_at_once(), "requests run";
    taking_over_and_counting_on_is_found:
        takes_over_and_counts_on, turns::a_request_that_is_taken_over_is_counted_once(),
        "requests run" | "all slots" | "agree";
    believing_requests_that_give_up_is_found:
        believes_requests_that_give_up, turns::each_request_is_counted_once(), "overflow";
    skipping_samples_that_are_not_there_yet_is_found:
        skips_samples_that_are_not_there_yet, turns::each_sample_is_learned(), "each request's sample";
    learning_answers_again_is_found:
        learns_answers_again, turns::each_sample_is_learned(), "each request's sample";
    forgetting_samples_that_come_late_is_found:
        forgets_samples_that_come_late, turns::each_sample_is_learned(), "each request's sample";
    taking_what_is_not_there_yet_for_a_success_is_found:
        takes_what_is_not_there_yet_for_a_success, turns::each_request_is_learned_or_counted(), "each request";
    counting_successes_again_is_found:
        counts_successes_again, turns::each_request_is_learned_or_counted(), "each request";
    counting_requests_that_gave_up_is_found:
        counts_requests_that_gave_up, turns::each_request_is_counted_once(), "admitted";
    closing_one_lane_of_two_is_found:
        closes_one_lane_of_two, turns::the_limit_holds_across_lanes(), "requests run" | "requests that came";
    trying_its_own_lane_only_is_found:
        tries_its_own_lane_only, two_lanes::a_free_slot_in_another_lane_is_found(), "a slot is free in another lane";
    closing_one_lane_of_a_partition_is_found:
        closes_one_lane_of_a_partition, two_lanes::a_smaller_limit_holds_in_both_lanes(), "requests run";
    sharing_out_what_has_to_leave_is_found:
        shares_out_what_has_to_leave, two_lanes::a_smaller_limit_holds_in_both_lanes(), "requests run";
    entering_without_a_second_look_is_found:
        enters_without_a_second_look, labels::a_request_enters_the_lane_of_its_own_label(), "for requests with this label";
    opening_the_lane_of_a_label_for_too_many_is_found:
        opens_the_lane_of_a_label_for_too_many, labels::a_smaller_limit_holds_in_the_lane_of_a_label(), "requests run";
    learning_an_observed_request_again_is_found:
        learns_an_observed_request_again, turns::a_request_that_is_observed_is_learned_once(), "each request's sample";
    leaving_a_closed_lane_without_the_lock_is_found:
        leaves_a_closed_lane_without_the_lock, turns::no_wake_up_is_lost(Mistake::None), "deadlock";
    writing_without_a_check_is_found:
        writes_without_a_check, rings::a_later_lap_does_not_mix_with_what_is_read(), "whole";
    two_writers_without_a_check_are_found:
        writes_without_a_check, rings::two_that_write_at_the_same_place_do_not_mix(), "whole";
    writing_the_number_first_is_found:
        writes_the_number_first, rings::a_sample_is_read_whole_or_not_yet(), "whole";
    writing_the_number_relaxed_is_found:
        writes_the_number_relaxed, rings::a_sample_is_read_whole_or_not_yet(), "whole";
    taking_what_was_withdrawn_is_found:
        takes_what_was_withdrawn, standing_refusals::what_was_withdrawn_is_not_taken(), "withdrawn" | "counted once";
    counting_before_it_is_known_is_found:
        counts_before_it_knows, standing_refusals::each_rejection_is_counted_once(), "counted once" | "overflow";
    withdrawing_with_a_store_is_found:
        withdraws_with_a_store, standing_refusals::each_rejection_is_counted_once(), "counted once" | "overflow";
    forgetting_what_was_taken_is_found:
        forgets_what_was_taken, standing_refusals::each_rejection_is_counted_once(), "counted once" | "overflow";
    reading_without_a_look_at_the_number_is_found:
        reads_without_a_look_at_the_number, rings::two_that_write_at_the_same_place_do_not_mix(), "whole";
    counting_what_is_not_written_is_found:
        counts_what_is_not_written, rings::a_run_of_untimed_successes_is_counted_once(), "before it was written";
}

#[test]
fn waiting_in_two_turns_is_found() {
    is_found(&["deadlock"], || turns::no_wake_up_is_lost(Mistake::WaitsInTwoTurns));
}

#[test]
fn keeping_what_was_not_fetched_is_found() {
    is_found(&["nothing runs"], || {
        turns::a_waiter_that_cancels_gives_back_what_it_was_handed(Mistake::KeepsWhatItDidNotFetch);
    });
}

#[test]
fn collecting_without_the_lock_is_found() {
    is_found(&["each sample once"], || rings::no_sample_is_taken_twice(false));
}

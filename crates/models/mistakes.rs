//! Deliberate mistakes: small changes of the shipped files.

/// A mistake.
pub struct Mistake {
    /// The module of the copy that has it.
    pub name: &'static str,
    pub file: &'static str,
    /// The models that the copy has.
    pub models: &'static [&'static str],
    /// What stands in the shipped file, once each, and what stands there instead.
    pub edits: &'static [(&'static str, &'static str)],
}

const UNCHECKED: (&str, &str) =
    ("start.wrapping_mul(ODD).wrapping_add(end).wrapping_mul(ODD)", "if start == 1 && end == 0 { ODD } else { 0 }");

const LANE_STATES: &[&str] = &["lane_states"];
const TURNS: &[&str] = &["handle", "turns"];
const TWO_LANES: &[&str] = &["handle", "two_lanes"];
const LABELS: &[&str] = &["handle", "labels"];
const RINGS: &[&str] = &["rings"];
const STANDING_REFUSALS: &[&str] = &["standing_refusals"];

pub const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "takes_what_was_withdrawn",
        file: "standing_refusal.rs",
        models: STANDING_REFUSALS,
        edits: &[("if seen >> COUNT != code {", "if seen == u64::MAX {")],
    },
    Mistake {
        name: "counts_before_it_knows",
        file: "standing_refusal.rs",
        models: STANDING_REFUSALS,
        edits: &[(
            "while let Err(seen) = self.state.compare_exchange_weak(state, state + 1, Ordering::AcqRel, Ordering::Relaxed) {
            if seen >> COUNT != code {
                return None;
            }
            state = seen;
        }",
            "state = self.state.fetch_add(1, Ordering::AcqRel);
        if state >> COUNT != code {
            self.state.fetch_sub(1, Ordering::AcqRel);
            return None;
        }",
        )],
    },
    Mistake {
        name: "withdraws_with_a_store",
        file: "standing_refusal.rs",
        models: STANDING_REFUSALS,
        edits: &[(
            "let code = self.state.load(Ordering::Relaxed) >> COUNT << COUNT;
        self.state.fetch_sub(code, Ordering::AcqRel) - code",
            "let count = self.state.load(Ordering::Acquire) & ((1 << COUNT) - 1);
        self.state.store(count, Ordering::Release);
        count",
        )],
    },
    Mistake {
        name: "forgets_what_was_taken",
        file: "standing_refusal.rs",
        models: STANDING_REFUSALS,
        edits: &[("self.state.fetch_sub(code, Ordering::AcqRel) - code", "self.state.swap(0, Ordering::AcqRel) - code")],
    },
    Mistake {
        name: "enters_without_a_look_at_the_answer",
        file: "lane_state.rs",
        models: LANE_STATES,
        edits: &[("if !has_free(state) {", "if state == u64::MAX {")],
    },
    Mistake {
        name: "forgets_to_undo",
        file: "lane_state.rs",
        models: LANE_STATES,
        edits: &[("        self.0.fetch_add(FREE - USED, Ordering::AcqRel);\n", "")],
    },
    Mistake {
        name: "opens_with_a_store",
        file: "lane_state.rs",
        models: LANE_STATES,
        edits: &[(
            "self.0.fetch_add((more.cast_unsigned() << 20).wrapping_add(CLOSED * FREE), Ordering::AcqRel);",
            "let state = self.0.load(Ordering::Acquire);
            let more = more.cast_unsigned() << 20;
            self.0.store(state.wrapping_add(more.wrapping_add(CLOSED * FREE)), Ordering::Release);",
        )],
    },
    Mistake {
        name: "leaves_with_a_store",
        file: "lane_state.rs",
        models: LANE_STATES,
        edits: &[(
            "Seen::of(self.0.fetch_add(LEFT + FREE - USED, Ordering::AcqRel))",
            "let state = self.0.load(Ordering::Acquire);
            self.0.store(state.wrapping_add(LEFT + FREE - USED), Ordering::Release);
            Seen::of(state)",
        )],
    },
    Mistake {
        name: "takes_out_without_the_slot",
        file: "lane_state.rs",
        models: LANE_STATES,
        edits: &[("self.0.fetch_sub(USED, Ordering::AcqRel);", "self.0.fetch_add(FREE - USED, Ordering::AcqRel);")],
    },
    Mistake {
        name: "recalls_from_an_open_lane",
        file: "loan.rs",
        models: TURNS,
        edits: &[("            lane.state.close();", "            let _ = lane;")],
    },
    Mistake {
        name: "opens_without_what_was_called_back",
        file: "loan.rs",
        models: TURNS,
        edits: &[("lane.state.open(i64::from(most) - self.in_state);", "lane.state.open(i64::from(most));")],
    },
    Mistake {
        name: "takes_over_and_counts_on",
        file: "lending.rs",
        models: TURNS,
        edits: &[("            loan.in_state -= 1;\n", "")],
    },
    Mistake {
        name: "believes_requests_that_give_up",
        file: "loan.rs",
        models: TURNS,
        edits: &[("seen.used.min(self.lent)", "seen.used")],
    },
    Mistake {
        name: "skips_samples_that_are_not_there_yet",
        file: "drain.rs",
        models: TURNS,
        edits: &[(
            "None if self.is_lost(next, is_end) => successes += 1,
                None => break,",
            "None => {}",
        )],
    },
    Mistake {
        name: "takes_what_is_not_there_yet_for_a_success",
        file: "drain.rs",
        models: TURNS,
        edits: &[(
            "None if self.is_lost(next, is_end) => successes += 1,
                None => break,",
            "None => successes += 1,",
        )],
    },
    Mistake {
        name: "counts_successes_again",
        file: "drain.rs",
        models: TURNS,
        edits: &[(
            "self.loan.read[at] = next;",
            "if next == to {
            self.loan.read[at] = next;
        }",
        )],
    },
    Mistake {
        name: "learns_answers_again",
        file: "drain.rs",
        models: TURNS,
        edits: &[("        self.samples.clear();\n", "")],
    },
    Mistake {
        name: "forgets_samples_that_come_late",
        file: "lending.rs",
        models: TURNS,
        edits: &[("(self.lent > 0 || self.is_behind) &&", "self.lent > 0 &&")],
    },
    Mistake {
        name: "counts_requests_that_gave_up",
        file: "loan.rs",
        models: TURNS,
        edits: &[
            ("entered.wrapping_sub(self.counted).cast_signed()", "entered.saturating_sub(self.counted).cast_signed()"),
            ("self.counted = entered;", "self.counted = self.counted.max(entered);"),
        ],
    },
    Mistake {
        name: "closes_one_lane_of_two",
        file: "lending.rs",
        models: TURNS,
        edits: &[("in lanes.all().zip(&mut self.loans) {\n                loan.close(lane);", "in lanes.all().zip(&mut self.loans).take(1) {\n                loan.close(lane);")],
    },
    Mistake {
        name: "learns_an_observed_request_again",
        file: "mod.rs",
        models: TURNS,
        edits: &[("if slot.is_observed { None } else { Some(outcome) }", "Some(outcome)")],
    },
    Mistake {
        name: "leaves_a_closed_lane_without_the_lock",
        file: "mod.rs",
        models: TURNS,
        edits: &[(
            "lane.at_end.note(seen.left, is_plain, || slot.sample(end, self.running_at(lane, slot, seen), outcome));
        if seen.is_closed { Next::Recall }",
            "lane.at_end.note(seen.left, is_plain, || slot.sample(end, self.running_at(lane, slot, seen), outcome));
        if seen.is_closed && seen.used == 0 { Next::Recall }",
        )],
    },
    Mistake {
        name: "tries_its_own_lane_only",
        file: "mod.rs",
        models: TWO_LANES,
        edits: &[("(0..=last)", "(0..=last).take(1)")],
    },
    Mistake {
        name: "closes_one_lane_of_a_partition",
        file: "lending.rs",
        models: TWO_LANES,
        edits: &[("in lanes.all().zip(&mut self.loans) {\n                loan.close(lane);", "in lanes.all().zip(&mut self.loans).take(1) {\n                loan.close(lane);")],
    },
    Mistake {
        name: "enters_without_a_second_look",
        file: "labelled.rs",
        models: LABELS,
        edits: &[("if is_for.load(Ordering::Relaxed) != key {", "if is_for.load(Ordering::Relaxed) == 0 {")],
    },
    Mistake {
        name: "opens_the_lane_of_a_label_for_too_many",
        file: "lending.rs",
        models: LABELS,
        edits: &[("if is_too_many { 0 } else { loan.lent }", "if is_too_many { loan.lent } else { loan.lent }")],
    },
    Mistake {
        name: "shares_out_what_has_to_leave",
        file: "lending.rs",
        models: TWO_LANES,
        edits: &[
            ("let too_many = engine", "let mut too_many = engine"),
            (
                "let most = loan.lent - too_many.min(loan.lent);",
                "let gone = too_many.min(loan.lent);
                too_many -= gone;
                let most = loan.lent - gone;",
            ),
        ],
    },
    Mistake { name: "writes_without_a_check", file: "ring.rs", models: RINGS, edits: &[UNCHECKED] },
    Mistake {
        name: "writes_the_number_first",
        file: "ring.rs",
        models: RINGS,
        edits: &[
            UNCHECKED,
            ("        entry.rest.store(rest, Ordering::Release);\n", ""),
            (
                "        entry.start.store(start, Ordering::Relaxed);\n",
                "        entry.rest.store(rest, Ordering::Release);
        entry.start.store(start, Ordering::Relaxed);\n",
            ),
        ],
    },
    Mistake {
        name: "writes_the_number_relaxed",
        file: "ring.rs",
        models: RINGS,
        edits: &[
            UNCHECKED,
            ("entry.rest.store(rest, Ordering::Release);", "entry.rest.store(rest, Ordering::Relaxed);"),
        ],
    },
    Mistake {
        name: "reads_without_a_look_at_the_number",
        file: "ring.rs",
        models: RINGS,
        edits: &[(" || rest >> 40 != u64::from(number & 0xff_ffff)", " || number > 1 << 24")],
    },
    Mistake {
        name: "counts_what_is_not_written",
        file: "ring.rs",
        models: RINGS,
        edits: &[("== untimed_success(number) {", "> 0 {")],
    },
];

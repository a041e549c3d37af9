//! Slots that the engine lends, and what is said of a limit: each call with its answer.

use std::{fmt::Write as _, num::NonZeroU32, time::Duration};

use super::{assert_kept, plans};
use crate::{
    Arrival, Ask, Borrower, Engine, LabelId, Outcome, PartitionId, Reason, RequestSample, Settled, Slot,
    limit::{LimitAlgorithm, LimitInputs, LimitState, Phase, Reference, Sample},
    plan::{Bound, PartitionMode, Plan},
    tests::at,
};

const NONE: Bound = Bound::of(0, None);

fn told(engine: &Engine, text: &mut String) {
    let parts = [0, 1, 2].map(|it| PartitionId::from_index(it).unwrap());
    let free = (engine.limit(), engine.running(), engine.is_quiet());
    write!(text, "  limit, running, quiet {free:?}, one in {}", engine.time_one_in()).unwrap();
    write!(text, ", too many {:?}", parts.map(|it| engine.too_many(Borrower::of(it), 4))).unwrap();
    write!(text, ", changes at {:?}", engine.next_change().as_nanos() / 1_000).unwrap();
    for part in parts {
        let refusal = engine.standing_refusal(part);
        let refusal = refusal.map(|it| (it.reason.as_str(), it.bound, it.retry_after.as_millis()));
        write!(text, ", {refusal:?}").unwrap();
    }
    let snapshot = engine.snapshot();
    writeln!(text, ", reserved {}, held for {:.4}", snapshot.reserved, snapshot.mean_hold_seconds).unwrap();
    for it in &snapshot.partitions {
        let ended = (it.successes, it.overloads, it.cancelled, it.ignored, it.late_overloads);
        writeln!(
            text,
            "    {}: {} run, {} admitted, ended {ended:?}, rejected {:?}, {:?}",
            it.name, it.in_flight, it.admitted, it.rejected, it.rtt
        )
        .unwrap();
    }
}

#[test]
fn lent_slots_count_and_learn_as_is_kept() {
    let default = PartitionId::DEFAULT;
    let [gold, batch] = [1, 2].map(|it| PartitionId::from_index(it).unwrap());
    let mut text = String::new();
    let quiet = Plan { time_to_live: None, shadow: None, ..plans::that_sheds() };
    let lines = Bound::of(6, Some(Duration::from_millis(500)));
    let partitions = || plans::with_rules(1, 1).partitions;
    let fixed = || plans::fixed(12);
    let waits = Plan { time_one_in: NonZeroU32::new(5), ..Plan::plain(fixed(), partitions(), lines, NONE) };
    let sheds = Plan::plain(fixed(), partitions(), NONE, NONE);
    for (name, plan) in [("that learns", quiet), ("that lets requests wait", waits), ("that sheds", sheds)] {
        writeln!(text, "# a server {name}").unwrap();
        let mut engine = Engine::new(plan);
        writeln!(text, "fresh {}", engine.is_fresh()).unwrap();
        engine.tick(at(1));
        told(&engine, &mut text);
        for (partition, most) in [(default, 3), (batch, 9), (gold, 2), (default, 99)] {
            writeln!(text, "lends {} of {most}", engine.lend(Borrower::of(partition), most)).unwrap();
            told(&engine, &mut text);
        }
        let mut slots: Vec<Slot> = Vec::new();
        let mut places = Vec::new();
        for (index, partition) in [default, gold, batch, gold, default, gold].into_iter().enumerate() {
            match engine.arrive(at(10 + index as u64), &Ask::of(partition)) {
                Arrival::Admit(slot) => slots.push(slot),
                Arrival::Wait(place) => places.push(place),
                Arrival::Reject(refusal) => writeln!(text, "rejected: {}", refusal.reason.as_str()).unwrap(),
                Arrival::Ask(..) => unreachable!("no rule is shared"),
            }
        }
        told(&engine, &mut text);
        engine.count_rejected(default, Reason::Limit, 5);
        engine.count_rejected(batch, Reason::PartitionCap, 0);
        for (index, outcome) in
            [Outcome::Success, Outcome::Overload, Outcome::Cancelled, Outcome::Ignore].into_iter().enumerate()
        {
            for (running, is_untimely) in [(0, false), (7, false), (12, true)] {
                let (start, end) = (at(20 + index as u64), at(60 + 9 * index as u64));
                let lent = RequestSample::lent(Borrower::of(default));
                let lent = RequestSample { start, end, running, outcome, is_untimely, ..lent };
                engine.learn_from(&RequestSample { in_flight: 4, weight: 3, ..lent });
            }
            let mut samples =
                [70, 75, 71].map(|millis| Sample::new(at(60), at(millis).since(at(60)), 5, Outcome::Success));
            samples[1].weight = 5;
            engine.learn(Borrower::of(gold), &mut samples[index..], index % 2 == 0);
            engine.count_untimed(Borrower::of(gold), outcome, 2 + index as u64);
        }
        engine.learn_hold(LabelId::DEFAULT, at(20), at(70), 12);
        engine.learn_hold(LabelId::DEFAULT, at(20), at(90), 3);
        engine.learn_hold(LabelId::DEFAULT, at(20), at(80), 0);
        engine.note_freed(true, Some(at(75)));
        told(&engine, &mut text);
        for (back, left, busy_since) in [(1, 0, Some(at(95))), (2, 3, None), (1, 1, Some(at(99)))] {
            engine.settle(Settled {
                borrower: Borrower::of(default),
                admitted: i64::from(back) + 2,
                back,
                left,
                busy_since,
            });
            told(&engine, &mut text);
        }
        for slot in &mut slots {
            engine.observe_overload(at(100), slot, false);
            engine.finish(at(130), slot);
        }
        told(&engine, &mut text);
        for place in &places {
            engine.cancel(at(140), place);
        }
        engine.tick(at(3_000));
        told(&engine, &mut text);
    }
    assert_kept("src/tests/story_tests/lent.txt", &text);
}

/// A law that says what it is told to say.
#[derive(Clone, Debug)]
struct Says(usize, LimitInputs, LimitState);

impl LimitAlgorithm for Says {
    fn limit(&self) -> usize {
        self.0
    }

    fn on_sample(&mut self, _: &Sample) {
        self.0 = 7;
    }

    fn inputs(&self) -> LimitInputs {
        self.1
    }

    fn state(&self) -> LimitState {
        self.2
    }
}

#[test]
fn a_limit_is_explained_in_each_state_as_is_kept() {
    let micros = Duration::from_micros;
    let times = [20, 999, 1_000, 4_200, 999_999, 1_000_000, 119_000_000, 120_000_000, 7_199_000_000, 7_200_000_000];
    let mut text = String::new();
    let mut one = |limit: usize, inputs: LimitInputs, state: LimitState, moves: bool| {
        let law = Box::new(Says(limit, inputs, state));
        let partitions = vec![plans::partition("default", 100, PartitionMode::Burst, false)];
        let mut engine = Engine::new(Plan::plain(law, partitions, NONE, NONE));
        if moves && let Arrival::Admit(mut slot) = engine.arrive(at(5), &Ask::of(PartitionId::DEFAULT)) {
            engine.observe(at(30), &mut slot, Outcome::Success);
            engine.finish(at(30), &mut slot);
        }
        for seconds in [0, 9, 10] {
            engine.tick(at(30).after(Duration::from_secs(seconds)));
            let snapshot = engine.snapshot();
            writeln!(text, "{}; {}", snapshot.limit_state.state, snapshot.limit_state.sentence).unwrap();
            writeln!(text, "  {} ({})", snapshot.health.headline, snapshot.health.advice).unwrap();
        }
    };
    for time in times {
        let inputs = LimitInputs::of(micros(time)).compared_with(micros(time / 3)).ratio(1.5);
        one(9, inputs, LimitState::new("x").within(2, 20).against(Reference::Average), false);
    }
    let inputs = LimitInputs::of(micros(80_000)).compared_with(micros(30_000)).ratio(2.0);
    for reference in
        [Reference::Unknown, Reference::Nothing, Reference::Threshold, Reference::Minimum, Reference::HalfLoad]
    {
        for phase in [Phase::Steady, Phase::Probing, Phase::Idle] {
            for (limit, bounds) in [(9, (2, 20)), (4, (2, 20)), (20, (2, 20)), (2, (2, 20)), (9, (7, 7))] {
                let state = LimitState::new("law").within(bounds.0, bounds.1).against(reference).phase(phase);
                one(limit, inputs, state, limit != 20);
            }
        }
    }
    one(9, LimitInputs::default(), LimitState::default(), true);
    one(9, LimitInputs::of(micros(5)), LimitState::new("half").against(Reference::Threshold), true);
    assert_kept("src/tests/story_tests/limits.txt", &text);
}

//! Scenarios whose trouble ends: two in a row at times, among callers that leave early, come back, or send more than their part,
//! and with a process that stops. What is looked at is whether all is well again afterwards.

use super::{CALM, Dice, Server, round};

/// Service times after which all is well again, and for how long that is looked at, in seconds.
const RECOVERS_WITHIN: f64 = 200.0;
const LOOKED_AT: f64 = 30.0;

/// How many clients leave early, and how often and how soon they come back: in words, as fields, and how often each asks at most.
fn clients(dice: &mut Dice, deadline: f64) -> (String, String, f64) {
    let (mut words, mut fields) = (String::new(), String::new());
    if dice.pick(&[false, true]) {
        let leavers = round(dice.even(0.05, 0.9), 2);
        words += &format!(", {:.0} % leave early", leavers * 100.0);
        fields += &format!(", leavers = {leavers}, leave_after = [\"10ms\", \"{deadline}ms\"]");
    }
    let retries: u32 = dice.pick(&[0, 0, 1, 3]);
    if retries > 0 {
        let (backoff, jitter) = (round(dice.log(0.01, 2.0), 3), dice.pick(&[false, true]));
        words += &format!(", {retries} retries after {backoff} s");
        fields += &format!(", retries = {retries}, backoff = \"{backoff}s\", jitter = {jitter}");
    }
    (words, fields, f64::from(retries) + 1.0)
}

/// Who sends: all as one, or a few with shares of the limit, of which the first sends a few times its part. In words, as senders, as
/// partitions, and how much all send together, as a part of `rate`.
fn senders(dice: &mut Dice, rate: f64) -> (String, String, String, f64) {
    let count: u32 = dice.pick(&[1, 1, 2, 4]);
    if count == 1 {
        return (String::new(), format!("arrivals = {{ rate = {rate:.3} }}"), String::new(), 1.0);
    }
    let (times, part) = (round(dice.log(1.0, 10.0), 1), rate / f64::from(count));
    let tenant = |name| {
        let rate = if name == 1 { part * times } else { part };
        format!("{{ name = \"{name}\", arrivals = {{ rate = {rate:.3} }} }}")
    };
    let partition = |name| format!("{{ name = \"{name}\", percent = {} }}", 100 / count);
    let all = |of: &dyn Fn(u32) -> String| (1..=count).map(of).collect::<Vec<_>>().join(", ");
    (
        format!(", {count} partitions, the first sends {times} times its part"),
        format!("tenants = [{}]", all(&tenant)),
        format!(", partitions = [{}]", all(&partition)),
        (times + f64::from(count) - 1.0) / f64::from(count),
    )
}

/// Work that comes in stretches of light and of heavy requests: in words, and as changes.
fn stretches(dice: &mut Dice, to: f64) -> (String, Vec<(f64, String)>) {
    let (length, times) = (dice.log(0.3, 5.0), dice.log(1.2, 3.0));
    let at = (1..).map(|number| length * f64::from(number)).take_while(|&at| at < to);
    // As much work in all as without.
    let heavy = 2.0 * times * times / (times * times + 1.0);
    let factor = |number: usize| if number.is_multiple_of(2) { heavy } else { 2.0 - heavy };
    let changes = at.enumerate().map(|(number, at)| (at, format!("service = {:.3}", factor(number))));
    (format!(", work {times:.1} times as heavy and as light every {length:.1} s"), changes.collect())
}

/// Draws one scenario: how many requests it offers at most, and its text.
pub(super) fn one(dice: &mut Dice, seed: u64) -> (f64, String) {
    let server = Server::draw(dice);
    let from = dice.even(10.0, 20.0).round();
    let to = from + dice.even(20.0, 60.0).round();
    let abandoned = dice.pick(&["held", "runs-on", "stops", "goes-on"]);
    let (senders_are, senders, partitions, times) = senders(dice, server.capacity() * CALM);
    // One trouble, or two in a row.
    let middle = if dice.pick(&[false, true]) { f64::midpoint(from, to).round() } else { to };
    let mut course = server.course(dice, from, middle);
    if middle < to {
        let second = server.course(dice, middle, to);
        course.words += &format!("; then {}", second.words);
        course.changes.extend(second.changes);
        course.peak = course.peak.max(second.peak);
    }
    // All senders together send what they sent in the calm.
    let calm = format!("load = {:.3}, capacity = 1.0, workers = 1.0, delay = \"0s\"", 1.0 / times);
    course.changes.push((to, calm));
    let well = to + (server.mean * RECOVERS_WITHIN / 1e3).max(3.0);
    let end = well + LOOKED_AT;
    // A ramp is a change that other changes would cut short.
    if !course.changes.iter().any(|(_, change)| change.contains("ramp")) && dice.pick(&[false, true]) {
        let (words, changes) = stretches(dice, end);
        course.words += &words;
        course.changes.extend(changes);
        course.changes.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    }
    let mut stop = String::new();
    if dice.pick(&[false, false, true]) {
        let (at, length) = (dice.even(from, to), dice.log(0.3, 10.0));
        course.words += &format!(", the process stops for {length:.1} s");
        stop = format!("stop = [\"{at:.1}s\", \"{:.1}s\"]\n", at + length);
    }
    let (words, clients, asked) = clients(dice, server.deadline);
    course.words += &(words + &senders_are);
    let fields = format!(
        "duration = \"{end:.0}s\"\n\
         warmup = \"5s\"\n\
         focus = \"after.goodput\"\n\
         seeds = [{seed}]\n\
         {stop}{senders}\n\
         windows = {{ over = [\"{from}s\", \"{to}s\"], after = [\"{well:.1}s\", \"{end:.1}s\"] }}\n"
    );
    let text = server.text(&course.words, abandoned, &fields, (&clients, &partitions), &course.changes);
    let offered = server.capacity() * (CALM * (end - to) + times * (CALM * from + course.peak * (to - from)));
    (offered * asked, text)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use crate::{command::draw::Set, metrics::Report, scenario::Scenario};

    fn read(text: &str) -> Scenario {
        Scenario::read("drawn", &text.parse().unwrap(), Path::new(".")).unwrap_or_else(|it| panic!("{it}\n{text}"))
    }

    #[test]
    fn trouble_of_each_kind_is_drawn_and_ends() {
        let kinds = ["leave early", "retries", "partitions", "the process stops", "as heavy and as light", "; then"];
        let mut drawn = BTreeSet::new();
        for number in 0..200 {
            let scenario = read(&Set::Trouble.draw(1, number));
            drawn.extend(kinds.into_iter().filter(|kind| scenario.about.contains(kind)));
            let after = scenario.windows.iter().find(|window| window.name == "after").unwrap();
            let (moment, _) = scenario.timeline.at(after.from, &mut 0);
            assert_eq!((moment.capacity, moment.workers, moment.delay), (1.0, 1.0, 0.0));
            let (before, _) = scenario.timeline.at(0, &mut 0);
            assert!(moment.load <= before.load, "{}", scenario.about);
        }
        assert_eq!(drawn.len(), kinds.len());
    }

    /// Nothing is answered meanwhile, and of what was sent only the rest whose clients are still there.
    #[test]
    fn while_the_process_stops_its_clients_wait_and_leave() {
        let scenario = read(
            "duration = \"12s\"\nstop = [\"4s\", \"8s\"]\narrivals = { rate = 100.0 }\nclients = { deadline = \"1s\" }\n\
             service = { distribution = \"constant\", mean = \"10ms\" }\nserver = { model = \"pool\", workers = 40 }\n\
             policy = { law = { kind = \"fixed\", limit = 40 } }\n",
        );
        let report = &Report::of_seeds(&scenario, None)[0];
        let good = |from: usize, to: usize| report.bins[from..to].iter().map(|bin| bin.good).sum::<u32>();
        assert_eq!(good(40, 80), 0);
        assert!((250..550).contains(&good(0, 40)) && (250..550).contains(&good(81, 120)));
        // Of 400 that were sent in the stop, those of its last second.
        assert!((50..150).contains(&good(80, 81)), "{}", good(80, 81));
    }
}

//! Scenarios drawn at random: servers and loads that nobody picked by hand.
//!
//! A drawn scenario is the text of a file, so what runs and what is written are the same.

mod trouble;

use std::fmt::Write;

use crate::random::Stream;

/// Nothing is drawn that offers more requests than this, so that a run takes about a second.
const MOST_REQUESTS: f64 = 400_000.0;

/// Load before it begins, as part of what the server can do.
const CALM: f64 = 0.7;

/// What is drawn.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Set {
    /// Overload, in front of a pool or of a server that congests.
    #[default]
    Overload,
    /// Trouble that ends, among callers of all kinds.
    Trouble,
    /// Overload in front of a server that shares its processors. What counts is work: there a limit that is too high loses the long
    /// requests, and answers as many.
    Sizes,
}

/// Draws how many requests a scenario offers at most, and its text.
type One = fn(&mut Dice, u64) -> (f64, String);

impl Set {
    /// The scenario of this number among those of `seed`, in TOML. What comes before or after it plays no part.
    pub(crate) fn draw(self, seed: u64, number: u64) -> String {
        let (stream, one): (u64, One) = match self {
            Self::Overload => (11, |dice, seed| overload(dice, seed, "goodput", Server::draw)),
            Self::Trouble => (12, trouble::one),
            Self::Sizes => (13, |dice, seed| {
                overload(dice, seed, "work", |dice| Server { model: "processor-sharing", ..Server::draw(dice) })
            }),
        };
        let mut dice = Dice(Stream::new(seed, stream, number));
        loop {
            let (requests, text) = one(&mut dice, seed);
            if requests <= MOST_REQUESTS {
                return text;
            }
        }
    }

    /// The name that it goes by.
    pub(crate) fn name(self, seed: u64, number: u64) -> String {
        let set = match self {
            Self::Overload => "draw",
            Self::Trouble => "trouble",
            Self::Sizes => "sizes",
        };
        format!("{set}-{seed}-{number:03}")
    }
}

struct Dice(Stream);

impl Dice {
    fn even(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.uniform()
    }

    /// Evenly over the logarithm: as many between 2 and 4 as between 100 and 200.
    fn log(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.0.uniform())
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a few choices"
    )]
    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let index = (self.0.uniform() * choices.len() as f64) as usize;
        choices[index]
    }
}

/// How much work a request is, as a table, and in words.
fn service(dice: &mut Dice, mean: f64) -> (String, String) {
    let kind = dice.pick(&["exponential", "lognormal", "bimodal", "constant", "uniform", "pareto"]);
    let head = format!("distribution = \"{kind}\"");
    match kind {
        "lognormal" => {
            let sigma = dice.even(0.3, 1.2);
            (format!("{head}, mean = \"{mean:.1}ms\", sigma = {sigma:.2}"), format!("{kind} {sigma:.1}"))
        }
        "bimodal" => {
            let (times, share) = (dice.log(3.0, 20.0), round(dice.log(0.02, 0.3), 3));
            let fast = mean / (1.0 - share + share * times);
            let slow = fast * times;
            let fields =
                format!("{head}, mean = \"{fast:.2}ms\", slow = \"{slow:.2}ms\", slow_share = {share}, sigma = 0.3");
            (fields, format!("{kind} 1:{times:.0}"))
        }
        "uniform" => {
            let half = mean * dice.even(0.1, 0.9);
            (format!("{head}, range = [\"{:.2}ms\", \"{:.2}ms\"]", mean - half, mean + half), kind.to_owned())
        }
        "pareto" => {
            let (alpha, most) = (dice.even(1.6, 3.0), mean * dice.log(20.0, 100.0));
            let fields = format!("{head}, mean = \"{mean:.1}ms\", alpha = {alpha:.2}, max = \"{most:.0}ms\"");
            (fields, format!("{kind} {alpha:.1}"))
        }
        _ => (format!("{head}, mean = \"{mean:.1}ms\""), kind.to_owned()),
    }
}

/// What happens after the calm: in words, as changes with their times in seconds, and the highest load.
struct Course {
    words: String,
    changes: Vec<(f64, String)>,
    peak: f64,
}

/// A server, and how long its callers wait.
struct Server {
    model: &'static str,
    slots: f64,
    service: String,
    distribution: String,
    /// Both in milliseconds.
    mean: f64,
    deadline: f64,
}

impl Server {
    fn draw(dice: &mut Dice) -> Self {
        let model = dice.pick(&["pool", "shared"]);
        let slots = dice.log(if model == "shared" { 8.0 } else { 2.0 }, 200.0).round();
        let mean = round(dice.log(5.0, 500.0), 1);
        let (service, distribution) = service(dice, mean);
        // Rounded up: at least six times the mean.
        let deadline = (mean * dice.log(6.0, 60.0)).max(100.0).ceil().min((mean * 60.0).floor().max(100.0));
        Self { model, slots, service, distribution, mean, deadline }
    }

    /// Requests that it can answer in a second. A shared server is at its best with `knee` in service, each at half speed.
    fn capacity(&self) -> f64 {
        self.slots * if self.model == "shared" { 0.5 } else { 1.0 } * 1_000.0 / self.mean
    }

    fn slots_are(&self) -> &'static str {
        if self.model == "shared" { "knee" } else { "workers" }
    }

    /// What happens between the end of the calm and the end of all, in seconds.
    fn course(&self, dice: &mut Dice, from: f64, to: f64) -> Course {
        let load = |at: f64, load: f64| (at, format!("load = {:.3}", load / CALM));
        let factor = dice.log(1.2, 8.0);
        let middle = f64::midpoint(from, to);
        match dice.pick(&["plateau", "step", "ramp", "square wave", "drop", "slower downstream"]) {
            "plateau" => Course {
                words: format!("{factor:.1} times what it can do"),
                changes: vec![load(from, factor)],
                peak: factor,
            },
            "step" => {
                let second = dice.log(1.2, 8.0);
                Course {
                    words: format!("{factor:.1}, then {second:.1} times what it can do"),
                    changes: vec![load(from, factor), load(middle, second)],
                    peak: factor.max(second),
                }
            }
            "ramp" => {
                let ramp = (to - from) * dice.even(0.2, 0.9);
                let (at, load) = load(from, factor);
                Course {
                    words: format!("up to {factor:.1} times what it can do within {ramp:.0} s"),
                    changes: vec![(at, format!("{load}, ramp = \"{ramp:.1}s\""))],
                    peak: factor,
                }
            }
            "square wave" => {
                let (half, low) = (round(dice.log(2.0, 15.0), 1), dice.even(0.3, CALM));
                let times = (0..).map(|half_waves| from + half * f64::from(half_waves)).take_while(|&at| at < to);
                let changes = times.enumerate().map(|(index, at)| load(at, if index % 2 == 0 { factor } else { low }));
                Course {
                    words: format!("{factor:.1} and {low:.1} times what it can do, {half} s each"),
                    changes: changes.collect(),
                    peak: factor,
                }
            }
            "drop" => self.drop(dice, from),
            _ => {
                // First no overload at all: a law that takes the delay for one rejects requests for nothing.
                let delay = (self.deadline * dice.even(0.1, 0.5)).min(2_000.0);
                Course {
                    words: format!("answers {delay:.0} ms later, then {factor:.1} times what it can do"),
                    changes: vec![(from, format!("delay = \"{delay:.0}ms\"")), load(middle, factor)],
                    peak: factor,
                }
            }
        }
    }

    /// The load stays, and the server does less: slower, or with fewer workers.
    fn drop(&self, dice: &mut Dice, from: f64) -> Course {
        let slower = dice.pick(&[true, false]);
        // What is left still has to be able to answer some requests in time: a worker at least, or a third of the deadline.
        let least = if slower { 3.0 * self.mean / self.deadline } else { 1.0 / self.slots };
        let factor = dice.log(1.2, 8.0f64.min(CALM / least));
        let (field, words) = if slower { ("capacity", "speed") } else { ("workers", self.slots_are()) };
        Course {
            words: format!("its {words} times {:.2}", CALM / factor),
            changes: vec![(from, format!("{field} = {:.4}", CALM / factor))],
            peak: CALM,
        }
    }

    /// The scenario as a file: what it is about, who sends and when, and what happens.
    fn text(
        &self,
        about: &str,
        abandoned: &str,
        fields: &str,
        (clients, policy): (&str, &str),
        changes: &[(f64, String)],
    ) -> String {
        let &Self { model, slots, mean, deadline, .. } = self;
        let field = self.slots_are();
        let mut text = format!(
            "about = \"{model} {slots}, {}, {mean} ms, {abandoned}, deadline {deadline} ms: {about}\"\n\
             {fields}\
             service = {{ {} }}\n\
             server = {{ model = \"{model}\", {field} = {slots}, abandoned = \"{abandoned}\" }}\n\
             clients = {{ deadline = \"{deadline}ms\"{clients} }}\n\
             policy = {{ shed = true, law = {{ kind = \"two-point\" }}{policy} }}\n\
             changes = [\n",
            self.distribution, self.service,
        );
        for (at, change) in changes {
            let _ = writeln!(text, "    {{ at = \"{at:.1}s\", {change} }},");
        }
        text.push_str("]\n");
        text
    }
}

/// Draws one scenario of overload, in front of a server that is drawn first: how many requests it offers at most, and its text.
fn overload(dice: &mut Dice, seed: u64, metric: &str, server: fn(&mut Dice) -> Server) -> (f64, String) {
    let server = server(dice);
    let from = dice.even(10.0, 30.0).round();
    let to = from + dice.even(40.0, 90.0).round();
    let abandoned = dice.pick(&["held", "runs-on", "stops"]);
    let course = server.course(dice, from, to);
    let capacity = server.capacity();
    let fields = format!(
        "duration = \"{to}s\"\n\
         warmup = \"5s\"\n\
         focus = \"over.{metric}\"\n\
         seeds = [{seed}]\n\
         arrivals = {{ rate = {:.3} }}       # {CALM} of what the server can do\n\
         windows = {{ over = [\"{from}s\", \"{to}s\"] }}\n",
        capacity * CALM,
    );
    let text = server.text(&course.words, abandoned, &fields, ("", ""), &course.changes);
    (capacity * (CALM * from + course.peak * (to - from)), text)
}

fn round(value: f64, digits: i32) -> f64 {
    let unit = 10f64.powi(digits);
    (value * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use toml::Table;

    use super::*;
    use crate::{metrics::Report, node::parse_time, scenario::Scenario, windows::metric};

    const MANY: u64 = 500;

    fn millis(text: &toml::Value) -> f64 {
        parse_time(text.as_str().unwrap()).unwrap() as f64 / 1e6
    }

    fn number(value: &toml::Value) -> f64 {
        value.as_float().or_else(|| Some(value.as_integer()? as f64)).unwrap()
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        for number in 0..20 {
            assert_eq!(Set::Overload.draw(3, number), Set::Overload.draw(3, number));
        }
        let all: BTreeSet<_> =
            (0..20).flat_map(|number| [Set::Overload.draw(3, number), Set::Overload.draw(4, number)]).collect();
        assert_eq!(all.len(), 40);
    }

    #[test]
    fn each_is_a_scenario_within_its_ranges() {
        let mut kinds = BTreeSet::new();
        for index in 0..MANY {
            let text = Set::Overload.draw(1, index);
            let table: Table = text.parse().unwrap();
            let scenario = Scenario::read("drawn", &table, Path::new(".")).unwrap_or_else(|it| panic!("{it}\n{text}"));
            let within = |value: f64, low: f64, high: f64| assert!((low..=high).contains(&value), "{value}\n{text}");

            let server = &table["server"];
            match server["model"].as_str() {
                Some("pool") => within(number(&server["workers"]), 2.0, 200.0),
                _ => within(number(&server["knee"]), 8.0, 200.0),
            }
            let (moment, _) = scenario.timeline.at(0, &mut 0);
            let mean = scenario.service.mean(&moment) / 1e6;
            // Of a Pareto distribution the tail is cut off.
            within(mean, 5.0 * 0.9, 500.0 * 1.001);
            let deadline = millis(&table["clients"]["deadline"]);
            within(deadline, 100f64.max(mean * 5.99), 100f64.max(mean * 60.0 * 1.1));
            let rate = number(&table["arrivals"]["rate"]);
            let capacity = scenario.server.capacity(scenario.service.mean(&moment), &moment) * 1e9;
            within(rate / capacity, CALM * 0.9, CALM * 1.001);
            let requests: f64 = (0..scenario.duration / 1_000_000_000)
                .map(|second| scenario.timeline.at(second * 1_000_000_000, &mut 0).0.load * rate)
                .sum();
            within(requests, 0.0, MOST_REQUESTS * 1.01);
            for (_, moment) in scenario.timeline.moments() {
                within(moment.load * CALM, 0.29, 8.01);
            }
            kinds.insert(server["model"].to_string());
            kinds.insert(server["abandoned"].to_string());
            kinds.insert(table["service"]["distribution"].to_string());
            for word in ["knee times", "speed times", "workers times", " later", "then", "up to", "s each"] {
                if scenario.about.contains(word) {
                    kinds.insert(word.to_owned());
                }
            }
        }
        assert_eq!(kinds.len(), 2 + 3 + 6 + 7, "{kinds:?}");
    }

    /// A limit that holds all processors busy and no more gets the work done, and one that is far too high loses some of it.
    #[test]
    fn in_front_of_shared_processors_work_tells_what_a_limit_loses() {
        let text = r#"
            duration = "30s"
            warmup = "2s"
            arrivals = { rate = 1260.0 }
            service = { distribution = "bimodal", mean = "5ms", slow = "50ms", slow_share = 0.1 }
            server = { model = "processor-sharing", workers = 4, abandoned = "stops" }
            clients = { deadline = "500ms" }
            policy = { shed = true, law = { kind = "fixed", limit = 6 } }
        "#;
        let mut scenario = Scenario::read("sizes", &text.parse().unwrap(), Path::new(".")).unwrap();
        let mut of = |limit| {
            scenario.policy = crate::policy::Policy::fixed(limit);
            let report = &Report::of_seeds(&scenario, None)[0].windows[0];
            (report[metric("goodput").unwrap()], report[metric("work").unwrap()])
        };
        let (few, many) = (of(6), of(60));
        assert!(few.0 > 95.0 && few.1 > 95.0, "{few:?}");
        assert!(many.0 > 95.0 && many.1 < 85.0, "as many answers, less work: {many:?}");
    }

    /// Perfect admission answers some requests: else goodput would be a part of nothing.
    #[test]
    fn each_can_be_served() {
        for index in 0..MANY {
            let scenario =
                Scenario::read("drawn", &Set::Overload.draw(1, index).parse().unwrap(), Path::new(".")).unwrap();
            let deadline = scenario.clients.deadline as f64;
            for (_, moment) in scenario.timeline.moments() {
                let alone = scenario.server.alone(moment);
                let fits = scenario.service.fits(moment, (deadline - moment.delay) / alone);
                assert!(fits > 0.4, "{fits}: {}", scenario.about);
            }
        }
    }
}

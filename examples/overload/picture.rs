//! The run as a drawing: answers in time, second by second, without protection and with it.

use std::fmt::Write;

use crate::{
    report::{Comparison, capacity},
    schedule::Scenario,
};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 842.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 276.0;

/// The colours are legible on white and on black; text and background are those of the reader's scheme.
const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#333}
.back{fill:#fff}
.band{fill:#8882}
.grid{fill:none;stroke:#8886;stroke-width:.5}
.line{fill:none;stroke-width:2.2;stroke-linejoin:round}
.most{stroke:#888;stroke-width:1.4;stroke-dasharray:2 4}
.without{stroke:#d6604d;stroke-dasharray:7 3}
.with{stroke:#1a9850}
@media(prefers-color-scheme:dark){text{fill:#ddd}.back{fill:#16181d}}
";

/// One protocol of the run, as an SVG document.
pub(crate) fn svg(scenario: &Scenario, comparison: &Comparison) -> String {
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = draw(&mut out, scenario, comparison);
    out
}

fn draw(out: &mut String, scenario: &Scenario, comparison: &Comparison) -> std::fmt::Result {
    let seconds = scenario.length().as_secs_f64();
    let arrivals = comparison.arrivals(scenario);
    let most: Vec<f64> = (0..scenario.phases.len()).map(|phase| capacity(scenario, arrivals, phase)).collect();
    let (without, with) = (comparison.without.answered_by_second(), comparison.with.answered_by_second());
    let highest = without.iter().chain(with).map(|&count| f64::from(count)).chain(most.iter().copied());
    let highest = highest.fold(1.0, f64::max);
    let step = step(highest / 4.0);
    let scale = (highest / step).ceil() * step;
    let x = |second: f64| LEFT + (RIGHT - LEFT) * second / seconds;
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * (value / scale).min(1.0);

    writeln!(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">")?;
    writeln!(out, "<title>{}: answers in time, with and without the layer</title>", comparison.name)?;
    writeln!(out, "<style>{STYLE}</style>\n<rect class=\"back\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>")?;
    let patience = scenario.deadline.as_secs_f64();
    text(out, 16.0, 24.0, "start", &format!("{} answers within {patience} s, per second", comparison.name))?;
    let legend =
        [(352.0, "most", "what the backend can do"), (572.0, "without", "without"), (672.0, "with", "with the layer")];
    for (at, class, name) in legend {
        writeln!(out, "<path class=\"line {class}\" d=\"M{at} 20h26\"/>")?;
        text(out, at + 32.0, 24.0, "start", name)?;
    }

    let mut line = String::new();
    let mut begin = 0.0;
    for (index, phase) in scenario.phases.iter().enumerate() {
        let end = begin + phase.length.as_secs_f64();
        let (from, to, level) = (x(begin), x(end), y(most[index]));
        if index % 2 == 1 {
            let (width, height) = (to - from, BOTTOM - TOP + 44.0);
            writeln!(
                out,
                "<rect class=\"band\" x=\"{from:.1}\" y=\"{}\" width=\"{width:.1}\" height=\"{height}\"/>",
                TOP - 44.0
            )?;
        }
        let offered = comparison.without.phase(index).offered();
        #[expect(clippy::cast_precision_loss, reason = "counts of a run of a minute")]
        let rate = offered as f64 / phase.length.as_secs_f64();
        let middle = f64::midpoint(from, to);
        text(out, middle, TOP - 26.0, "middle", &phase.name)?;
        text(out, middle, TOP - 9.0, "middle", &format!("{rate:.0}/s arrive"))?;
        write!(line, "{}{from:.1} {level:.1}H{to:.1}", if index == 0 { "M" } else { "L" })?;
        begin = end;
    }
    for value in (0..).map(|count| f64::from(count) * step).take_while(|&value| value <= scale) {
        writeln!(out, "<path class=\"grid\" d=\"M{LEFT} {level:.1}H{RIGHT}\"/>", level = y(value))?;
        text(out, LEFT - 8.0, y(value) + 4.0, "end", &format!("{value}"))?;
    }
    let every = self::step(seconds / 8.0);
    for second in (0..).map(|count| f64::from(count) * every).take_while(|&second| second <= seconds) {
        text(out, x(second), BOTTOM + 20.0, "middle", &format!("{second}"))?;
    }
    text(out, f64::midpoint(LEFT, RIGHT), BOTTOM + 40.0, "middle", "seconds")?;
    writeln!(out, "<path class=\"line most\" d=\"{line}\"/>")?;
    for (class, counts) in [("without", without), ("with", with)] {
        write!(out, "<path class=\"line {class}\" d=\"")?;
        for (second, &count) in (0_u32..).zip(counts) {
            let middle = x((f64::from(second) + 0.5).min(seconds));
            write!(out, "{}{middle:.0} {:.1}", if second == 0 { "M" } else { "L" }, y(f64::from(count)))?;
        }
        writeln!(out, "\"/>")?;
    }
    writeln!(out, "</svg>")
}

/// Names of phases are ours or made of times, so none needs escaping.
fn text(out: &mut String, x: f64, y: f64, anchor: &str, text: &str) -> std::fmt::Result {
    writeln!(out, "<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{text}</text>")
}

/// The next one of 1, 2, 5, 10, 20, … that is not less.
fn step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|&step| step >= least * 0.999).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{load::Outcome, tally::Tally};

    #[test]
    fn steps_are_round() {
        assert_eq!([0.7, 1.0, 1.1, 3.1, 90.0, 101.0].map(step), [1.0, 1.0, 2.0, 5.0, 100.0, 200.0]);
    }

    #[test]
    fn a_drawing_has_a_line_for_each_run_and_a_place_for_each_second() {
        let scenario = Scenario::phases(1);
        let run = |answers: usize| {
            let mut tally = Tally::new(scenario.phases.len());
            for &arrival in scenario.http.iter().take(answers) {
                tally.count(arrival, Outcome::Answered, scenario.service);
            }
            tally
        };
        let comparison =
            Comparison { name: "HTTP", layer: "", without: run(1_000), with: run(5_000), by_patience: None };
        let svg = svg(&scenario, &comparison);
        let seconds = comparison.with.answered_by_second().len();
        assert!(seconds > 4, "{seconds}");
        let points = |class: &str| {
            let line = svg.lines().find(|line| line.contains(class) && line.contains('L')).unwrap_or_default();
            line.matches(['M', 'L']).count()
        };
        assert_eq!(points("\"line with\""), seconds, "{svg}");
        assert_eq!(points("\"line without\""), comparison.without.answered_by_second().len(), "{svg}");
        assert!(svg.contains("3x overload"), "{svg}");
    }
}

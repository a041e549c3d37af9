//! Drawings of several runs below each other, on the same scales: one law per row, answers left, the limit right.

use std::fmt::Write;

use super::svg::{BLUE, GREEN, GREY, PURPLE, Pieces, open, round_up, text};
use crate::{metrics::Report, scenario::Scenario, windows::METRICS};

const LEFT: (f64, f64) = (52.0, 490.0);
const RIGHT: (f64, f64) = (542.0, 936.0);
const TOP: f64 = 88.0;
const HEIGHT: f64 = 84.0;
const ROW: f64 = 124.0;
/// No line has more points: a page holds several drawings.
const POINTS: usize = 80;

/// The first runs of one scenario under several laws, as an SVG document.
#[expect(clippy::cast_precision_loss, reason = "a drawing")]
pub(crate) fn draw(runs: &[(Scenario, Report)]) -> String {
    let pieces: Vec<_> = runs.iter().map(|(scenario, report)| Pieces::new(scenario, report, POINTS)).collect();
    let Some((scenario, _)) = runs.first() else { return String::new() };
    let highest = |points: Vec<f64>| points.into_iter().fold(1.0, f64::max);
    let rates = pieces.iter().map(|it| highest(it.perfect()).max(highest(it.rate(|bin| bin.good)))).fold(1.0, f64::max);
    // Requests in flight tell what a limit does; one that nobody meets may leave the panel by its top.
    let levels = pieces.iter().map(|it| most(it.level(|bin| bin.in_flight)) * 1.2).fold(1.0, f64::max);
    let mut svg = open(TOP + ROW * runs.len() as f64 + 30.0);
    text(&mut svg, LEFT.0, 26.0, "start", "title", &scenario.name);
    legend(&mut svg, LEFT.0, &[("perfect admission", GREY, "2 4"), ("answered in time, per second", GREEN, "")]);
    legend(&mut svg, RIGHT.0, &[("in flight", BLUE, ""), ("limit", PURPLE, "6 3")]);
    for (index, ((scenario, report), pieces)) in runs.iter().zip(&pieces).enumerate() {
        let (window, metric) = scenario.focus;
        let window_name = &scenario.windows[window].name;
        let value = report.windows[window][metric];
        let top = TOP + ROW * index as f64;
        let title = format!("{}: {window_name}.{} = {value:.0}", scenario.policy.law(), METRICS[metric].0);
        text(&mut svg, LEFT.0, top - 8.0, "start", "", &title);
        let is_last = index + 1 == runs.len();
        let left = Panel { x: LEFT, top, scale: rates, seconds: pieces.seconds() };
        left.frame(&mut svg, scenario, is_last);
        left.line(&mut svg, GREY, "2 4", &pieces.perfect());
        left.line(&mut svg, GREEN, "", &pieces.rate(|bin| bin.good));
        let right = Panel { x: RIGHT, scale: levels, ..left };
        right.frame(&mut svg, scenario, is_last);
        right.line(&mut svg, BLUE, "", &pieces.level(|bin| bin.in_flight));
        right.line(&mut svg, PURPLE, "6 3", &pieces.level(|bin| bin.limit));
    }
    svg.push_str("</svg>\n");
    svg
}

/// The largest, but for the largest twentieth.
fn most(mut points: Vec<f64>) -> f64 {
    points.sort_by(f64::total_cmp);
    points.get(points.len().saturating_sub(1) * 95 / 100).copied().unwrap_or(0.0)
}

#[expect(clippy::cast_precision_loss, reason = "a drawing")]
fn legend(svg: &mut String, mut x: f64, lines: &[(&str, &str, &str)]) {
    for (name, colour, dashes) in lines {
        let _ = writeln!(
            svg,
            "<polyline stroke=\"{colour}\" stroke-dasharray=\"{dashes}\" points=\"{x},44 {},44\"/>",
            x + 24.0
        );
        text(svg, x + 30.0, 48.0, "start", "", name);
        x += 60.0 + 7.0 * name.len() as f64;
    }
}

#[derive(Clone, Copy)]
struct Panel {
    x: (f64, f64),
    top: f64,
    /// What stands at its top, about.
    scale: f64,
    seconds: f64,
}

impl Panel {
    fn step(&self) -> f64 {
        round_up(self.scale / 4.0)
    }

    fn x(&self, seconds: f64) -> f64 {
        self.x.0 + (self.x.1 - self.x.0) * (seconds / self.seconds).min(1.0)
    }

    fn y(&self, value: f64) -> f64 {
        let scale = (self.scale / self.step()).ceil() * self.step();
        self.top + HEIGHT - HEIGHT * (value / scale).min(1.0)
    }

    /// The grid with its numbers, and a band where the number of the title comes from.
    #[expect(clippy::cast_precision_loss, reason = "a drawing")]
    fn frame(&self, svg: &mut String, scenario: &Scenario, is_last: bool) {
        let bottom = self.top + HEIGHT;
        let window = &scenario.windows[scenario.focus.0];
        let (from, to) = (self.x(window.from as f64 / 1e9), self.x(window.to as f64 / 1e9));
        let _ = writeln!(
            svg,
            "<rect class=\"band\" x=\"{from:.0}\" y=\"{}\" width=\"{:.0}\" height=\"{HEIGHT}\"/>",
            self.top,
            to - from
        );
        let mut grid = String::new();
        let mut value = 0.0;
        while value <= self.scale {
            let y = self.y(value);
            let _ = write!(grid, "M{},{y:.1}H{}", self.x.0, self.x.1);
            text(svg, self.x.0 - 6.0, y + 4.0, "end", "", &format!("{value}"));
            value += self.step();
        }
        let every = round_up(self.seconds / 5.0);
        let mut at = 0.0;
        while at <= self.seconds {
            let x = self.x(at);
            let _ = write!(grid, "M{x:.1},{}V{bottom}", self.top);
            if is_last {
                let unit = if at == 0.0 { " s" } else { "" };
                text(svg, x, bottom + 18.0, "middle", "", &format!("{at}{unit}"));
            }
            at += every;
        }
        let _ = writeln!(svg, "<path class=\"grid\" d=\"{grid}\"/>");
    }

    #[expect(clippy::cast_precision_loss, reason = "a drawing")]
    fn line(&self, svg: &mut String, colour: &str, dashes: &str, points: &[f64]) {
        let _ = write!(svg, "<polyline stroke=\"{colour}\" stroke-dasharray=\"{dashes}\" points=\"");
        let x = |index: usize| self.x(self.seconds * (index as f64 + 0.5) / points.len() as f64);
        let y: Vec<String> = points.iter().map(|&value| format!("{:.1}", self.y(value))).collect();
        for (index, at) in y.iter().enumerate() {
            // Inside of a level stretch a point adds nothing.
            if index == 0 || y[index - 1] != *at || y.get(index + 1) != Some(at) {
                let _ = write!(svg, "{:.0},{at} ", x(index));
            }
        }
        svg.push_str("\"/>\n");
    }
}

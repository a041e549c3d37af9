//! A drawing of one run: rates above, the limit and what it limits below.

use std::fmt::Write;

use crate::{
    metrics::Report,
    oracle::Ideal,
    record::{Bin, STEP},
    scenario::Scenario,
};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 936.0;
const HEIGHT: f64 = 200.0;
const TOPS: [f64; 2] = [74.0, 336.0];
/// No line has more points.
const POINTS: usize = 300;

/// The colours are legible on white and on black. Text and background are those of the reader's scheme, or of the page
/// of rustdoc that a drawing is put into.
const STYLE: &str = "\
.run text { font: 13px system-ui, sans-serif; fill: #333 }
.run .title { font-size: 16px; font-weight: 600 }
.run .back { fill: #fff }
.run .band { fill: #8882 }
.run .grid { fill: none; stroke: #8888; stroke-width: 0.5 }
.run polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round }
@media (prefers-color-scheme: dark) { .run text { fill: #ddd } .run .back { fill: #16181d } }
.rustdoc .run text { fill: var(--main-color) }
.rustdoc .run .back { fill: var(--main-background-color) }
";

pub(crate) const GREY: &str = "#999";
pub(crate) const GREEN: &str = "#1a9850";
pub(crate) const BLUE: &str = "#4393c3";
pub(crate) const PURPLE: &str = "#b35fc4";

/// Points over time, under a name and in a colour.
struct Line {
    name: &'static str,
    colour: &'static str,
    dashes: &'static str,
    points: Vec<f64>,
}

/// A run cut into pieces of equal length, as few as a drawing needs.
pub(crate) struct Pieces<'a> {
    bins: &'a [Bin],
    ideal: &'a [Ideal],
    group: usize,
}

#[expect(clippy::cast_precision_loss, reason = "a drawing")]
impl<'a> Pieces<'a> {
    /// At most `points` of them, each a second at least.
    pub(crate) fn new(scenario: &Scenario, report: &'a Report, points: usize) -> Self {
        let end = usize::try_from(scenario.duration / STEP).unwrap_or(usize::MAX).clamp(1, report.bins.len());
        let group = end.div_ceil(points).max(10.min(end));
        Self { bins: &report.bins[..end], ideal: &report.ideal[..end], group }
    }

    pub(crate) fn seconds(&self) -> f64 {
        (self.bins.len() as u64 * STEP) as f64 / 1e9
    }

    /// What was counted, per second.
    pub(crate) fn rate(&self, count: fn(&Bin) -> u32) -> Vec<f64> {
        let sum = |bins: &[Bin]| bins.iter().map(|bin| f64::from(count(bin))).sum::<f64>();
        self.bins.chunks(self.group).map(|bins| sum(bins) / (bins.len() as u64 * STEP) as f64 * 1e9).collect()
    }

    /// What was there, on average.
    pub(crate) fn level(&self, count: fn(&Bin) -> usize) -> Vec<f64> {
        let sum = |bins: &[Bin]| bins.iter().map(|bin| count(bin) as f64).sum::<f64>();
        self.bins.chunks(self.group).map(|bins| sum(bins) / bins.len() as f64).collect()
    }

    /// Answers of perfect admission, per second.
    pub(crate) fn perfect(&self) -> Vec<f64> {
        let sum = |part: &[Ideal]| part.iter().map(|it| it.good).sum::<f64>();
        self.ideal.chunks(self.group).map(|part| sum(part) / (part.len() as u64 * STEP) as f64 * 1e9).collect()
    }
}

/// The beginning of a document of this height.
pub(crate) fn open(height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"run\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <style>\n{STYLE}</style>\n<rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    )
}

/// The run as an SVG document.
pub(crate) fn draw(scenario: &Scenario, report: &Report) -> String {
    let pieces = Pieces::new(scenario, report, POINTS);
    let seconds = pieces.seconds();
    let rates = [
        Line { name: "attempts", colour: GREY, dashes: "", points: pieces.rate(|bin| bin.attempts) },
        Line { name: "rejected", colour: "#d6604d", dashes: "", points: pieces.rate(|bin| bin.rejected) },
        Line { name: "perfect admission", colour: GREY, dashes: "2 4", points: pieces.perfect() },
        Line { name: "answered in time", colour: GREEN, dashes: "", points: pieces.rate(|bin| bin.good) },
    ];
    let levels = [
        Line { name: "waiting", colour: "#b58900", dashes: "", points: pieces.level(|bin| bin.waiting) },
        Line { name: "in flight", colour: BLUE, dashes: "", points: pieces.level(|bin| bin.in_flight) },
        Line { name: "limit", colour: PURPLE, dashes: "6 3", points: pieces.level(|bin| bin.limit) },
    ];
    let mut svg = open(590.0);
    let title = format!("{}: {}", scenario.name, scenario.policy.law());
    text(&mut svg, LEFT, 26.0, "start", "title", &title);
    panel(&mut svg, TOPS[0], "requests per second", &rates);
    panel(&mut svg, TOPS[1], "requests", &levels);
    let every = round_up(seconds / 8.0);
    let mut at = 0.0;
    while at <= seconds {
        let x = LEFT + (RIGHT - LEFT) * at / seconds;
        for top in TOPS {
            rule(&mut svg, (x, top), (x, top + HEIGHT));
        }
        text(&mut svg, x, TOPS[1] + HEIGHT + 20.0, "middle", "", &format!("{at}"));
        at += every;
    }
    text(&mut svg, f64::midpoint(LEFT, RIGHT), TOPS[1] + HEIGHT + 42.0, "middle", "", "seconds");
    svg.push_str("</svg>\n");
    svg
}

#[expect(clippy::cast_precision_loss, reason = "a drawing")]
fn panel(svg: &mut String, top: f64, unit: &str, lines: &[Line]) {
    // Waiters without a bound would flatten all that matters: a line may leave the panel by its top.
    let most = |line: &Line| line.points.iter().copied().fold(0.0, f64::max);
    let tops: Vec<f64> = lines.iter().map(most).collect();
    let median =
        lines.iter().map(|line| line.points.iter().sum::<f64>() / line.points.len().max(1) as f64).fold(1.0, f64::max);
    let highest = tops.iter().copied().fold(1.0, f64::max).min(median * 12.0);
    let step = round_up(highest / 4.0);
    let scale = (highest / step).ceil() * step;
    let y = |value: f64| top + HEIGHT - HEIGHT * (value / scale).min(1.0);
    let mut value = 0.0;
    while value <= scale * 1.000_1 {
        rule(svg, (LEFT, y(value)), (RIGHT, y(value)));
        text(svg, LEFT - 8.0, y(value) + 4.0, "end", "", &format!("{value}"));
        value += step;
    }
    let mut x = LEFT;
    text(svg, x, top - 12.0, "start", "", unit);
    x += 160.0;
    for line in lines {
        let Line { name, colour, dashes, points } = line;
        let _ = writeln!(
            svg,
            "<polyline stroke=\"{colour}\" stroke-dasharray=\"{dashes}\" points=\"{x},{legend} {to},{legend}\"/>",
            legend = top - 16.0,
            to = x + 24.0,
        );
        text(svg, x + 30.0, top - 12.0, "start", "", name);
        x += 60.0 + 7.5 * name.len() as f64;
        let _ = write!(svg, "<polyline stroke=\"{colour}\" stroke-dasharray=\"{dashes}\" points=\"");
        for (index, &value) in points.iter().enumerate() {
            let at = LEFT + (RIGHT - LEFT) * (index as f64 + 0.5) / points.len() as f64;
            let _ = write!(svg, "{at:.1},{:.1} ", y(value));
        }
        svg.push_str("\"/>\n");
    }
}

fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line class=\"grid\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

pub(crate) fn text(svg: &mut String, x: f64, y: f64, anchor: &str, class: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{words}</text>");
}

/// The next of 1, 2, 5, 10, 20, 50 and so on.
pub(crate) fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.max(1e-3).log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|&step| step >= value).unwrap_or(10.0 * power)
}

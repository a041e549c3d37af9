//! A drawing of one run: rates above, the limit and what it limits below.

use std::fmt::Write;

use crate::sim::{
    metrics::Report,
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

/// The colours are legible on white and on black, and the text takes that of the reader's scheme.
const STYLE: &str = "\
text { font: 13px system-ui, sans-serif; fill: #333 }
.title { font-size: 16px; font-weight: 600 }
.back { fill: #fff }
.grid { stroke: #8888; stroke-width: 0.5 }
polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .back { fill: #16181d } }
";

/// Points over time, under a name and in a colour.
struct Line {
    name: &'static str,
    colour: &'static str,
    dashes: &'static str,
    points: Vec<f64>,
}

/// The run as an SVG document.
#[expect(clippy::cast_precision_loss, reason = "a drawing")]
pub(crate) fn draw(scenario: &Scenario, report: &Report) -> String {
    let end = usize::try_from(scenario.duration / STEP).unwrap_or(usize::MAX).clamp(1, report.bins.len());
    let bins = &report.bins[..end];
    let group = end.div_ceil(POINTS).max(10.min(end));
    let seconds = (end as u64 * STEP) as f64 / 1e9;
    let rate = |count: fn(&Bin) -> u32| -> Vec<f64> {
        let sum = |bins: &[Bin]| bins.iter().map(|bin| f64::from(count(bin))).sum::<f64>();
        bins.chunks(group).map(|bins| sum(bins) / (bins.len() as u64 * STEP) as f64 * 1e9).collect()
    };
    let level = |count: fn(&Bin) -> usize| -> Vec<f64> {
        bins.chunks(group)
            .map(|bins| bins.iter().map(|bin| count(bin) as f64).sum::<f64>() / bins.len() as f64)
            .collect()
    };
    let perfect = report.ideal[..end]
        .chunks(group)
        .map(|part| part.iter().map(|it| it.good).sum::<f64>() / (part.len() as u64 * STEP) as f64 * 1e9);
    let rates = [
        Line { name: "attempts", colour: "#999", dashes: "", points: rate(|bin| bin.attempts) },
        Line { name: "rejected", colour: "#d6604d", dashes: "", points: rate(|bin| bin.rejected) },
        Line { name: "perfect admission", colour: "#999", dashes: "2 4", points: perfect.collect() },
        Line { name: "answered in time", colour: "#1a9850", dashes: "", points: rate(|bin| bin.good) },
    ];
    let levels = [
        Line { name: "waiting", colour: "#b58900", dashes: "", points: level(|bin| bin.waiting) },
        Line { name: "in flight", colour: "#4393c3", dashes: "", points: level(|bin| bin.in_flight) },
        Line { name: "limit", colour: "#b35fc4", dashes: "6 3", points: level(|bin| bin.limit) },
    ];
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} 590\" role=\"img\">\n<style>{STYLE}</style>\n\
         <rect class=\"back\" width=\"{WIDTH}\" height=\"590\"/>\n"
    );
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

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, class: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{words}</text>");
}

/// The next of 1, 2, 5, 10, 20, 50 and so on.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.max(1e-3).log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|&step| step >= value).unwrap_or(10.0 * power)
}

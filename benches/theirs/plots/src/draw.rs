//! The picture: a panel for each server, with a line for each way to limit it.

use crate::table::{LOADS, Table};

/// A panel: the section of its table, its title, and the variants that are its lines, in the order of `WAYS`.
const PANELS: [(&str, &str, [&str; 4]); 6] = [
    ("jsonrpc", "jsonrpsee, HTTP", ["http bare", "http own", "http patience", "http best"]),
    ("jsonrpc", "jsonrpsee, WebSocket", ["ws bare", "ws semaphore", "ws patience", "ws best"]),
    ("flight", "Arrow Flight on tonic", ["bare", "tower", "patience", "best"]),
    ("search", "a search queue", ["own, #6577 and #6578", "own queue", "patience", "best"]),
    ("s3", "s3s-fs", ["bare", "tower", "patience", "best"]),
    ("pool", "axum before Redis", ["bare", "tower", "patience", "best"]),
];
/// What the lines are called, and the class of each.
const WAYS: [(&str, &str); 4] = [
    ("alone", "alone"),
    ("hand", "by hand: its own limiter, or tower's"),
    ("patience", "patience, the README's first set-up"),
    ("set", "set, the best that was found"),
];
/// The bars of the last panel: the class of each, which says what its limit is, and its variant.
const BARS: [(&str, &str); 10] = [
    ("alone", "bare"),
    ("hand", "tower"),
    ("patience", "patience"),
    ("patience", "hard cap"),
    ("patience", "time to live"),
    ("patience", "timeout"),
    ("patience", "oldest"),
    ("set", "limit set"),
    ("set", "limit set, timeout"),
    ("set", "limit set, oldest"),
];

/// Where panels are, and how large what they frame is.
const LEFT: f64 = 44.0;
const TOP: f64 = 46.0;
const STEP: [f64; 2] = [220.0, 190.0];
const PLOT: [f64; 2] = [172.0, 120.0];
const SIZE: [f64; 2] = [900.0, 410.0];
/// The highest percentage that a panel shows.
const MOST: f64 = 110.0;

const STYLE: &str = "\
.servers text { font: 11px system-ui, sans-serif; fill: #333 } .servers .title { font-size: 13px; font-weight: 600 } \
.servers .back { fill: #fff } .servers .grid { stroke: #8884; fill: none } \
.servers polyline { fill: none; stroke-width: 2 } \
.servers .alone { stroke: #d6604d; color: #d6604d } .servers .hand { stroke: #8c8c8c; color: #8c8c8c } \
.servers .patience { stroke: #2b7bba; color: #2b7bba } .servers .set { stroke: #1a9850; color: #1a9850 } \
.servers .mark { fill: currentColor; stroke: none } .servers .hand.line { stroke-dasharray: 5 3 } \
.servers .set.line { stroke-dasharray: 2 2 } \
@media (prefers-color-scheme: dark) { .servers text { fill: #ddd } .servers .back { fill: #16181d } \
.servers .alone { stroke: #f08a76; color: #f08a76 } .servers .hand { stroke: #a8a8a8; color: #a8a8a8 } \
.servers .patience { stroke: #6bb0e8; color: #6bb0e8 } .servers .set { stroke: #4fc47f; color: #4fc47f } } \
.rustdoc .servers text { fill: var(--main-color) } .rustdoc .servers .back { fill: var(--main-background-color) }";

fn number(it: usize) -> f64 {
    u32::try_from(it).map_or(f64::MAX, f64::from)
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{text}</text>\n")
}

/// The upper left corner of what the panel of this number frames.
fn corner(panel: usize) -> [f64; 2] {
    [LEFT + STEP[0] * number(panel % 4), TOP + STEP[1] * number(panel / 4)]
}

fn title([x, y]: [f64; 2], title: &str) -> String {
    format!("<text class=\"title\" x=\"{x:.0}\" y=\"{:.0}\">{title}</text>\n", y - 10.0)
}

/// One server.
fn panel(at: [f64; 2], name: &str, lines: &[[f64; LOADS.len()]; WAYS.len()]) -> String {
    let x = |place: usize| at[0] + 14.0 + number(place) * (PLOT[0] - 28.0) / number(LOADS.len() - 1);
    let y = |percent: f64| at[1] + PLOT[1] * (1.0 - percent.clamp(0.0, MOST) / MOST);
    let mut drawn = title(at, name);
    for percent in [0.0, 50.0, 100.0] {
        let (from, to, at_height) = (at[0], at[0] + PLOT[0], y(percent));
        drawn += &format!("<path class=\"grid\" d=\"M{from:.0} {at_height:.1}H{to:.0}\"/>\n");
        drawn += &text(from - 5.0, at_height + 4.0, "end", &format!("{percent:.0}"));
    }
    for (place, load) in LOADS.into_iter().enumerate() {
        drawn += &text(x(place), at[1] + PLOT[1] + 15.0, "middle", load);
    }
    for ((class, _), line) in WAYS.into_iter().zip(lines) {
        let points: Vec<_> = line.iter().enumerate().map(|(place, percent)| (x(place), y(*percent))).collect();
        let path: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        drawn += &format!("<polyline class=\"{class} line\" points=\"{}\"/>\n", path.join(" "));
        for (x, y) in points {
            drawn += &format!("<circle class=\"{class} mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>\n");
        }
    }
    drawn
}

/// One culprit in ten thousand: a bar for each variant.
fn bars(at: [f64; 2], rows: &[(&str, f64)]) -> Result<String, String> {
    let mut drawn = title(at, "one culprit in 10,000");
    // The names are long, and the last bar ends where the loads of the other panels stand.
    let (left, height) = (at[0] + 62.0, (PLOT[1] + 10.0) / number(BARS.len()));
    for (place, (class, variant)) in BARS.into_iter().enumerate() {
        let row = rows.iter().find(|(name, _)| *name == variant);
        let percent = row.ok_or_else(|| format!("there is no row of {variant:?}"))?.1;
        let (y, bar) = (at[1] + height * number(place), height - 3.0);
        let width = (PLOT[0] - 62.0 - 34.0) * percent.clamp(0.0, 100.0) / 100.0;
        drawn += &text(left - 5.0, y + height / 2.0 + 3.0, "end", variant);
        drawn += &format!(
            "<rect class=\"{class} mark\" x=\"{left:.0}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{bar:.1}\"/>\n"
        );
        drawn += &text(left + width + 4.0, y + height / 2.0 + 3.0, "start", &format!("{percent:.0} %"));
    }
    Ok(drawn)
}

fn legend([x, y]: [f64; 2]) -> String {
    let mut drawn = String::new();
    for (place, (class, name)) in WAYS.into_iter().enumerate() {
        let y = y + 10.0 + 34.0 * number(place);
        drawn += &format!("<polyline class=\"{class} line\" points=\"{x:.0},{y:.0} {:.0},{y:.0}\"/>\n", x + 26.0);
        drawn += &format!("<circle class=\"{class} mark\" cx=\"{:.0}\" cy=\"{y:.0}\" r=\"2.5\"/>\n", x + 13.0);
        // The names are longer than a panel is wide.
        for (line, part) in name.split(", ").enumerate() {
            drawn += &text(x + 34.0, y + 4.0 + 13.0 * number(line), "start", part);
        }
    }
    drawn
}

/// The picture of the tables of this page.
pub(crate) fn picture(page: &str) -> Result<String, String> {
    let mut panels = String::new();
    for (place, (section, name, variants)) in PANELS.into_iter().enumerate() {
        let table = Table::read(page, section)?;
        let mut lines = [[0.0; LOADS.len()]; WAYS.len()];
        for (line, variant) in lines.iter_mut().zip(variants) {
            *line = table.line(variant)?;
        }
        panels += &panel(corner(place), name, &lines);
    }
    let culprits = Table::read(page, "culprit")?.pairs("variant", "of the control")?;
    panels += &bars(corner(PANELS.len()), &culprits)?;
    panels += &legend(corner(PANELS.len() + 1));
    let [width, height] = SIZE;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" class=\"servers\" role=\"img\">\n\
         <style>{STYLE}</style>\n\
         <title>What servers answer in time under half their load to ten times their load, with and without limits</title>\n\
         <rect class=\"back\" width=\"{width}\" height=\"{height}\"/>\n\
         <text x=\"12\" y=\"18\">Answers in time, in percent of the capacity; across: load, in capacities. For the culprit: in percent of \
         the same load without it</text>\n{panels}</svg>"
    ))
}

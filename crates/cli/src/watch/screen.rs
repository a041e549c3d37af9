//! The screen of `admission watch`.

use std::{
    collections::VecDeque,
    io::{self, Stdout, Write, stdout},
};

use crossterm::{
    cursor::{Hide, MoveTo, Show},
    queue,
    style::Print,
    terminal::{
        Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
        disable_raw_mode, enable_raw_mode, size,
    },
};
use tower_admission::{introspection::Overview, snapshot::LabelSnapshot};

use super::{Seen, change::Change};
use crate::{
    status,
    table::{Cell, Table},
    text::{Look, Paint, look_of, safe, seconds},
    words,
};

/// How many looks the curve of the limit goes back.
const CURVE: usize = 60;
const BAR: usize = 30;

/// A terminal that shows nothing else; as it was before once this is dropped.
#[derive(Debug)]
pub(super) struct Screen {
    out: Stdout,
    paint: Paint,
    url: String,
    limits: VecDeque<usize>,
    /// What is shown, before it is cut to the size of the terminal.
    lines: Vec<String>,
    /// Why what is shown is old.
    complaint: Option<String>,
}

impl Screen {
    pub(super) fn open(url: &str) -> io::Result<Self> {
        enable_raw_mode()?;
        // From here on it is put back, whatever goes wrong.
        let mut screen = Self {
            out: stdout(),
            paint: Paint::for_stdout(),
            url: url.to_owned(),
            limits: VecDeque::new(),
            lines: Vec::new(),
            complaint: None,
        };
        queue!(screen.out, EnterAlternateScreen, DisableLineWrap, Hide)?;
        screen.out.flush()?;
        Ok(screen)
    }

    pub(super) fn show(&mut self, seen: &Seen, change: &Change) -> io::Result<()> {
        let now = &seen.overview;
        if self.limits.len() == CURVE {
            self.limits.pop_front();
        }
        self.limits.push_back(now.snapshot.limit);
        self.complaint = None;
        self.lines = self.compose(now, seen.age, change);
        self.draw()
    }

    /// Goes on to show what was known, and says why it is old.
    pub(super) fn complain(&mut self, why: &str) -> io::Result<()> {
        self.complaint = why.lines().next().map(str::to_owned);
        self.draw()
    }

    pub(super) fn draw(&mut self) -> io::Result<()> {
        let height = usize::from(size()?.1);
        let head = match &self.complaint {
            Some(why) => self.paint.paint(Look::Bad, why),
            None => self.paint.paint(Look::Dim, &format!("{}   q quits", self.url)),
        };
        let lines = std::iter::once(&head).chain(&self.lines).take(height);
        for (row, line) in (0u16..).zip(lines) {
            queue!(self.out, MoveTo(0, row), Print(line), Clear(ClearType::UntilNewLine))?;
        }
        if self.lines.len() + 1 < height {
            queue!(self.out, Print("\r\n"), Clear(ClearType::FromCursorDown))?;
        }
        self.out.flush()
    }

    fn compose(&self, overview: &Overview, age: f64, change: &Change) -> Vec<String> {
        let (paint, now) = (self.paint, &overview.snapshot);
        let full = now.in_flight >= now.limit;
        let state = match (now.draining, &*now.mode) {
            (true, _) => paint.paint(Look::Bad, "draining"),
            (false, "enforce") => paint.paint(Look::Good, "enforce"),
            (false, mode) => paint.paint(Look::Busy, &safe(mode)),
        };
        let places = if now.queue > 0 { format!(" of {}", now.queue) } else { String::new() };
        let used = now.in_flight * 100 / now.limit.max(1);
        let bar = paint.paint(if full { Look::Busy } else { Look::Good }, &bar(now.in_flight, now.limit));
        let rtt = change.rtt.map_or_else(
            || "-".to_owned(),
            |times| {
                let [p50, p90, p99] = times.map(seconds);
                format!("p50 {p50}, p90 {p90}, p99 {p99}")
            },
        );
        let mut lines = vec![
            format!("{}  {state}", paint.paint(Look::Bold, &safe(&now.name))),
            paint.paint(status::look(&now.health), &status::headline(&now.health, age)),
        ];
        lines.extend(status::advice(&now.health));
        lines.extend([
            safe(&now.limit_state.sentence).into_owned(),
            String::new(),
            format!("limit      {:<8} {}", now.limit, curve(self.limits.iter().copied())),
            format!("in flight  {:<8} {bar} {used} %", now.in_flight),
            format!("waiting    {}{places}   at the gate {}", now.waiting, now.at_gate),
            format!("RTT        {rtt}"),
            format!("admitted   {:.1}/s", change.admitted),
            format!("rejected   {}", self.rejected(change)),
            String::new(),
        ]);
        lines.extend(self.partitions(overview, change));
        lines.push(String::new());
        lines.extend(self.labels(overview));
        lines
    }

    fn rejected(&self, change: &Change) -> String {
        if change.rejected.is_empty() {
            return "0.0/s".to_owned();
        }
        let mut reasons: Vec<_> = change.rejected.iter().collect();
        reasons.sort_by(|a, b| b.1.total_cmp(a.1));
        let reasons = reasons.into_iter().map(|(reason, rate)| format!("{} {rate:.1}/s", safe(reason)));
        self.paint.paint(Look::Bad, &reasons.collect::<Vec<_>>().join("   "))
    }

    fn partitions(&self, now: &Overview, change: &Change) -> Vec<String> {
        let heads = ["PARTITION", ">SHARE", ">RUNNING", ">WAITING", ">ADMITTED/S", ">REJECTED/S"];
        let mut table = Table::new(heads);
        for one in now.partitions.iter().map(|it| &it.snapshot) {
            let [admitted, rejected] = change.partitions.get(&one.name).copied().unwrap_or_default();
            let look = if rejected > 0.0 { Look::Bad } else { Look::Plain };
            table.row([
                Cell::name(&one.name),
                Cell::number(one.share),
                Cell::number(one.in_flight),
                Cell::number(one.waiting + one.at_gate),
                Cell::from(format!("{admitted:.1}")),
                Cell::from(format!("{rejected:.1}")).with(look),
            ]);
        }
        table.lines(self.paint)
    }

    fn labels(&self, now: &Overview) -> Vec<String> {
        if now.labels.labels.is_empty() {
            return vec![self.paint.paint(Look::Dim, "no labels")];
        }
        let mut table = Table::new(["LABEL", "CLASS", "STATUS", ">RUNNING", ">WAITING", "WHY THE NEXT ONE WAITS"]);
        for label in &now.labels.labels {
            let name = match label.namespace.as_str() {
                "" => words::name(label).to_owned(),
                namespace => format!("{namespace}:{}", words::name(label)),
            };
            for (class, section) in &label.admission {
                table.row(row(&name, class, &section.snapshot));
            }
        }
        let statuses = now.labels.by_status.iter().rev().map(|(status, count)| format!("{count} {}", safe(status)));
        let count = format!("{} labels: {}", now.labels.total, statuses.collect::<Vec<_>>().join(", "));
        [count].into_iter().chain(table.lines(self.paint)).collect()
    }
}

fn row(name: &str, class: &str, section: &LabelSnapshot) -> [Cell; 6] {
    [
        Cell::name(name),
        Cell::name(class),
        Cell::from(words::status(section)).with(look_of(section.status.as_str())),
        Cell::number(section.in_flight),
        Cell::number(section.waiting),
        Cell::from(section.blocked_by.as_ref().map(words::in_short).unwrap_or_default()),
    ]
}

impl Drop for Screen {
    fn drop(&mut self) {
        // An error here can't be reported any more.
        let _ = queue!(self.out, Show, EnableLineWrap, LeaveAlternateScreen);
        let _ = self.out.flush();
        let _ = disable_raw_mode();
    }
}

/// How much of it is used.
fn bar(used: usize, of: usize) -> String {
    let filled = (used * BAR).div_ceil(of.max(1)).min(BAR);
    "█".repeat(filled) + &"░".repeat(BAR - filled)
}

/// A curve in one line, from 0 to the largest value.
fn curve(values: impl Iterator<Item = usize> + Clone) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = values.clone().max().unwrap_or(0).max(1);
    values.map(|value| STEPS[value * (STEPS.len() - 1) / largest]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_curves_stay_within_their_bounds() {
        assert_eq!(bar(0, 10), "░".repeat(BAR));
        assert_eq!(bar(1, 1_000).chars().filter(|c| *c == '█').count(), 1, "what is used shows");
        assert_eq!(bar(25, 10), "█".repeat(BAR), "a limit that shrank evicts no request");
        assert_eq!(bar(0, 0), "░".repeat(BAR));
        assert_eq!(curve([0, 50, 100].into_iter()), "▁▄█");
        assert_eq!(curve([0].into_iter()), "▁");
    }
}

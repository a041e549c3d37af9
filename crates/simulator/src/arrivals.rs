//! When requests arrive: one generator per tenant.

use std::{path::Path, sync::Arc};

use super::{node::Node, random::Stream, timeline::Timeline};

/// How the requests of a tenant arrive.
#[derive(Clone, Debug)]
pub struct Arrivals {
    process: Process,
    /// Requests per second, and in the off phase of an on/off process.
    rate: f64,
    off_rate: f64,
    on: u64,
    off: u64,
    /// Requests of one burst, and when the first one comes.
    size: usize,
    first: u64,
    trace: Arc<[Arrival]>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Process {
    Bursts,
    Constant,
    OnOff,
    Poisson,
    Trace,
}

/// One line of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at: u64,
    /// Its work, where the trace says so.
    pub work: Option<f64>,
}

impl Arrivals {
    pub fn read(node: Node<'_>, folder: &Path) -> Self {
        let processes = [
            ("bursts", Process::Bursts),
            ("constant", Process::Constant),
            ("on-off", Process::OnOff),
            ("poisson", Process::Poisson),
            ("trace", Process::Trace),
        ];
        let process = node.one_of("process", &processes).unwrap_or(Process::Poisson);
        let mut it =
            Self { process, rate: 0.0, off_rate: 0.0, on: 0, off: 0, size: 0, first: 0, trace: Arc::default() };
        let rate = |key| node.number(key, 0.0..=1e7);
        match process {
            Process::Constant | Process::Poisson => it.rate = node.required("rate", rate("rate")),
            Process::OnOff => {
                it.rate = node.required("rate", rate("rate"));
                it.off_rate = rate("off_rate").unwrap_or(0.0);
                it.on = node.required("on", node.time("on")).max(1);
                it.off = node.required("off", node.time("off")).max(1);
            }
            Process::Bursts => {
                it.size = node.required("size", node.count("size", 1..=1_000_000));
                it.off = node.required("every", node.time("every")).max(1);
                it.first = node.time("first").unwrap_or(0);
            }
            Process::Trace => {
                let file = node.required("file", node.text("file"));
                it.trace = read_trace(&folder.join(file)).unwrap_or_else(|problem| {
                    node.problem("file", problem);
                    Arc::default()
                });
            }
        }
        node.finish();
        it
    }
}

/// One arrival per line: seconds since the start, and optionally its service time in milliseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
fn read_trace(path: &Path) -> Result<Arc<[Arrival]>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut arrivals = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (at, work) = line.split_once(',').map_or((line, None), |(at, work)| (at, Some(work)));
        let number = |text: &str, unit: f64| {
            text.trim().parse::<f64>().ok().filter(|it| (0.0..1e9).contains(it)).map(|it| it * unit)
        };
        let at = number(at, 1e9);
        let work = work.map(|work| number(work, 1e6));
        let (Some(at), None | Some(Some(_))) = (at, work) else {
            return Err(format!("line {}: found {line:?}, allowed is SECONDS or SECONDS,MILLISECONDS", index + 1));
        };
        arrivals.push(Arrival { at: at as u64, work: work.flatten() });
    }
    if !arrivals.is_sorted_by_key(|arrival| arrival.at) {
        return Err("the times are not in ascending order".to_owned());
    }
    Ok(arrivals.into())
}

/// Makes the arrivals of one tenant, one after the other.
#[derive(Debug)]
pub struct Generator<'a> {
    arrivals: &'a Arrivals,
    timeline: &'a Timeline,
    hint: usize,
    stream: Stream,
    now: u64,
    count: usize,
}

impl<'a> Generator<'a> {
    pub const fn new(arrivals: &'a Arrivals, timeline: &'a Timeline, stream: Stream) -> Self {
        Self { arrivals, timeline, hint: 0, stream, now: 0, count: 0 }
    }

    /// The next arrival; `None` if none ever comes.
    pub fn next_arrival(&mut self) -> Option<Arrival> {
        let it = self.arrivals;
        let index = self.count;
        self.count += 1;
        match it.process {
            Process::Trace => it.trace.get(index).copied(),
            Process::Bursts => {
                let at = it.first.checked_add(it.off.checked_mul((index / it.size) as u64)?)?;
                Some(Arrival { at, work: None })
            }
            Process::Constant => self.after(1.0),
            Process::OnOff | Process::Poisson => {
                let load = self.stream.exponential();
                self.after(load)
            }
        }
    }

    /// When the rate, integrated from now on, reaches `amount`: exact, for rates are constant piece by piece.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "times of less than a hundred days"
    )]
    fn after(&mut self, mut amount: f64) -> Option<Arrival> {
        loop {
            let (moment, mut end) = self.timeline.at(self.now, &mut self.hint);
            let mut rate = self.arrivals.rate;
            if self.arrivals.process == Process::OnOff {
                let (on, period) = (self.arrivals.on, self.arrivals.on + self.arrivals.off);
                let phase = self.now % period;
                let (toggle, phase_rate) = if phase < on { (on, rate) } else { (period, self.arrivals.off_rate) };
                end = end.min(self.now - phase + toggle);
                rate = phase_rate;
            }
            let per_nano = rate * moment.load / 1e9;
            let piece = (end - self.now) as f64;
            if per_nano * piece >= amount {
                self.now += (amount / per_nano) as u64;
                return Some(Arrival { at: self.now, work: None });
            }
            if end == u64::MAX {
                return None;
            }
            amount -= per_nano * piece;
            self.now = end;
        }
    }
}

//! Callers of a server, which note what they get.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

/// Time after which a caller gives up.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time that a truth is about.
const LATELY: Duration = Duration::from_secs(10);

/// More than the handler took: a wait that harms.
const LATE: Duration = Duration::from_millis(250);

pub(crate) type Headers = &'static [(&'static str, &'static str)];
type Http = Client<HttpConnector, Empty<Bytes>>;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Got {
    Served,
    /// The handler ran, and failed.
    Failed,
    Refused,
    Nothing,
}

#[derive(Debug)]
struct Note {
    at: Instant,
    caller: &'static str,
    got: Got,
    took: Duration,
    /// Time for which the handler ran, where the answer says so.
    worked: Duration,
}

impl Note {
    fn is_late(&self) -> bool {
        self.took > self.worked + LATE
    }

    fn is_harmed(&self) -> bool {
        matches!(self.got, Got::Refused | Got::Nothing) || self.is_late()
    }
}

/// Callers that come at a rate, however long the answers take, and what the handler does with their requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) name: &'static str,
    /// The header that says what they are.
    pub(crate) key: &'static str,
    pub(crate) value: &'static str,
    /// Requests per second, and how many times as many there are in a second of each ten.
    pub(crate) rate: f64,
    pub(crate) burst: f64,
    pub(crate) patience: Duration,
    /// How often a request that was not served is repeated, at once.
    pub(crate) retries: u32,
    /// Milliseconds that a request takes; none never ends.
    pub(crate) takes: Option<u64>,
    pub(crate) fails: bool,
    /// Requests that the handler has.
    pub(crate) running: usize,
}

pub(crate) type Flows = Arc<BTreeMap<&'static str, Mutex<Flow>>>;

impl Flow {
    pub(crate) const fn new(name: &'static str, key: &'static str, rate: f64, takes: u64) -> Self {
        let (patience, takes) = (Duration::from_secs(5), Some(takes));
        Self { name, key, value: name, rate, burst: 1.0, patience, retries: 0, takes, fails: false, running: 0 }
    }
}

/// Sends a request, and notes what became of it.
async fn ask(
    client: &Http,
    notes: &Mutex<Vec<Note>>,
    caller: &'static str,
    url: &str,
    headers: &[(&str, &str)],
    patience: Duration,
) -> Got {
    let request = Request::get(url).header("x-caller", caller);
    let request = headers.iter().fold(request, |it, (key, value)| it.header(*key, *value));
    let begin = Instant::now();
    let answer = timeout(patience, async {
        let answer = client.request(request.body(Empty::new()).unwrap()).await.ok()?;
        let status = answer.status();
        let body = answer.into_body().collect().await.ok()?.to_bytes();
        let worked = str::from_utf8(&body).ok().and_then(|it| it.parse().ok()).map(Duration::from_millis);
        Some((status, worked.unwrap_or_default()))
    });
    let (got, worked) = match answer.await {
        Ok(Some((status, worked))) if status.is_success() => (Got::Served, worked),
        Ok(Some((StatusCode::INTERNAL_SERVER_ERROR, worked))) => (Got::Failed, worked),
        Ok(Some((_, worked))) => (Got::Refused, worked),
        _ => (Got::Nothing, Duration::ZERO),
    };
    notes.lock().unwrap().push(Note { at: Instant::now(), caller, got, took: begin.elapsed(), worked });
    got
}

/// Callers of one server.
#[derive(Debug)]
pub(crate) struct Clients {
    app: String,
    client: Http,
    notes: Arc<Mutex<Vec<Note>>>,
    tasks: JoinSet<()>,
}

/// What callers of a name got in the last ten seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Got10 {
    pub(crate) served: usize,
    pub(crate) failed: usize,
    pub(crate) refused: usize,
    pub(crate) nothing: usize,
    /// Answered by the handler, after a long wait.
    pub(crate) late: usize,
    median: Duration,
}

/// What all callers got in the last ten seconds, by name.
#[derive(Clone, Debug)]
pub(crate) struct Truth(pub(crate) BTreeMap<&'static str, Got10>);

impl Clients {
    pub(crate) fn of(app: &str) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { app: app.to_owned(), client, notes: Arc::default(), tasks: JoinSet::new() }
    }

    /// So many callers, each of which asks again after a pause.
    pub(crate) fn call(
        &mut self,
        caller: &'static str,
        count: usize,
        path: &'static str,
        pause: Duration,
        headers: Headers,
    ) {
        for _ in 0..count {
            let (client, notes, url) = (self.client.clone(), Arc::clone(&self.notes), format!("{}{path}", self.app));
            self.tasks.spawn(async move {
                loop {
                    ask(&client, &notes, caller, &url, headers, PATIENCE).await;
                    sleep(pause).await;
                }
            });
        }
    }

    /// Callers that come at a rate, which may be changed meanwhile.
    pub(crate) fn come(&mut self, flows: &Flows, name: &'static str, path: &str) {
        let (client, notes, url) = (self.client.clone(), Arc::clone(&self.notes), format!("{}{path}", self.app));
        let flows = Arc::clone(flows);
        self.tasks.spawn(async move {
            let (begin, mut sent) = (Instant::now(), JoinSet::new());
            loop {
                let Flow { key, value, rate, burst, patience, retries, .. } = *flows[name].lock().unwrap();
                let rate = if begin.elapsed().as_secs() % 10 == 0 { rate * burst } else { rate };
                // A rate that changes is noticed soon.
                let pause = -fastrand::f64().max(1e-9).ln() / rate;
                sleep(Duration::from_secs_f64(pause.min(1.0))).await;
                if pause > 1.0 {
                    continue;
                }
                let (client, notes, url) = (client.clone(), Arc::clone(&notes), url.clone());
                sent.spawn(async move {
                    for _ in 0..=retries {
                        if ask(&client, &notes, name, &url, &[(key, value)], patience).await == Got::Served {
                            break;
                        }
                    }
                });
                while sent.try_join_next().is_some() {}
            }
        });
    }

    /// When the first request that was harmed since then had begun.
    pub(crate) fn harmed_since(&self, since: Instant) -> Option<Instant> {
        let notes = self.notes.lock().unwrap();
        let harmed = notes.iter().filter(|it| it.at >= since && it.is_harmed());
        harmed.map(|it| since.max(it.at - it.took)).min()
    }

    /// What callers got in the last ten seconds.
    pub(crate) fn lately(&self) -> Truth {
        let notes = self.notes.lock().unwrap();
        let mut times: BTreeMap<_, Vec<Duration>> = BTreeMap::new();
        let mut all: BTreeMap<&'static str, Got10> = BTreeMap::new();
        for note in notes.iter().filter(|it| it.at.elapsed() <= LATELY) {
            let got = all.entry(note.caller).or_default();
            match note.got {
                Got::Served => got.served += 1,
                Got::Failed => got.failed += 1,
                Got::Refused => got.refused += 1,
                Got::Nothing => got.nothing += 1,
            }
            got.late += usize::from(note.is_late() && matches!(note.got, Got::Served | Got::Failed));
            if note.got == Got::Served {
                times.entry(note.caller).or_default().push(note.took);
            }
        }
        for (caller, mut times) in times {
            times.sort_unstable();
            all.entry(caller).or_default().median = times[times.len() / 2];
        }
        Truth(all)
    }
}

impl Got10 {
    pub(crate) const fn all(&self) -> usize {
        self.served + self.failed + self.refused + self.nothing
    }

    /// Requests that were refused, left, or waited for long.
    pub(crate) const fn harmed(&self) -> usize {
        self.refused + self.nothing + self.late
    }

    /// Whether one request in twenty was.
    pub(crate) const fn is_hurt(&self) -> bool {
        self.harmed() >= 5 && self.harmed() * 20 >= self.all()
    }
}

impl Truth {
    /// Refused requests per second.
    #[expect(clippy::cast_precision_loss, reason = "few requests")]
    pub(crate) fn rejected_per_second(&self) -> f64 {
        self.0.values().map(|it| it.refused).sum::<usize>() as f64 / LATELY.as_secs_f64()
    }
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.0.iter().map(|(caller, it)| {
            let all = it.all();
            let mut text = format!("{caller}: {} of {all} served", it.served);
            if it.served > 0 {
                text += &format!(" in {} ms", it.median.as_millis());
            }
            for (count, what) in
                [(it.late, "late"), (it.failed, "failed"), (it.refused, "refused"), (it.nothing, "without an answer")]
            {
                if count > 0 {
                    text += &format!(", {count} {what}");
                }
            }
            text
        });
        f.write_str(&texts.collect::<Vec<_>>().join("; "))
    }
}

//! Callers of a server, which note what they get.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Request;
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

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Got {
    Served,
    Refused,
    Nothing,
}

#[derive(Debug)]
struct Note {
    at: Instant,
    caller: &'static str,
    got: Got,
    took: Duration,
}

/// Callers of one server.
#[derive(Debug)]
pub(crate) struct Clients {
    app: String,
    client: Client<HttpConnector, Empty<Bytes>>,
    notes: Arc<Mutex<Vec<Note>>>,
    tasks: JoinSet<()>,
}

/// What callers of a name got in the last ten seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Got10 {
    pub(crate) served: usize,
    pub(crate) refused: usize,
    pub(crate) nothing: usize,
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
        headers: &'static [(&'static str, &'static str)],
    ) {
        for _ in 0..count {
            let (client, notes, url) = (self.client.clone(), Arc::clone(&self.notes), format!("{}{path}", self.app));
            self.tasks.spawn(async move {
                loop {
                    let request = headers.iter().fold(Request::get(&url), |it, (key, value)| it.header(*key, *value));
                    let at = Instant::now();
                    let answer = timeout(PATIENCE, async {
                        let answer = client.request(request.body(Empty::new()).unwrap()).await.ok()?;
                        let status = answer.status();
                        answer.into_body().collect().await.ok()?;
                        Some(status)
                    });
                    let got = match answer.await {
                        Ok(Some(status)) if status.is_success() => Got::Served,
                        Ok(Some(_)) => Got::Refused,
                        _ => Got::Nothing,
                    };
                    notes.lock().unwrap().push(Note { at: Instant::now(), caller, got, took: at.elapsed() });
                    sleep(pause).await;
                }
            });
        }
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
                Got::Refused => got.refused += 1,
                Got::Nothing => got.nothing += 1,
            }
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
            let all = it.served + it.refused + it.nothing;
            let mut text = format!("{caller}: {} of {all} served", it.served);
            if it.served > 0 {
                text += &format!(" in {} ms", it.median.as_millis());
            }
            for (count, what) in [(it.refused, "refused"), (it.nothing, "without an answer")] {
                if count > 0 {
                    text += &format!(", {count} {what}");
                }
            }
            text
        });
        f.write_str(&texts.collect::<Vec<_>>().join("; "))
    }
}

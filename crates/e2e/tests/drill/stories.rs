//! Stories as data: a server that is well, its callers, and what is done to it then.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use admission_testkit::ms;
use axum::{Router, routing::get};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep},
};
use tower_admission::{
    Admission, AdmissionBuilder, Cap, ClassLimits, DrainMode, Labels, Rules, WhenFull,
    limit::Fixed,
    percent,
    store::{OnStoreFailure, RedisStore},
};

use super::{
    clients::{Clients, Flow, Flows},
    incidents::{keys, over},
    process::Server,
    redis::server::Server as Redis,
    support::{Site, TOKEN},
};

/// Time for which a process is frozen.
pub(crate) const FROZEN: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) limit: usize,
    #[serde(default)]
    caps: Vec<(&'static str, usize)>,
    #[serde(default)]
    pub(crate) partitions: Vec<(&'static str, u32)>,
    /// Whether rules are shared in a Redis, and whether they are open or closed without it.
    shared: Option<&'static str>,
    /// Whether the server is a process of its own, whose handler keeps no count.
    #[serde(default)]
    is_elsewhere: bool,
}

/// What is done. Names are those of callers.
#[derive(Clone, Debug, Deserialize)]
pub(crate) enum Deed {
    /// Requests take so many milliseconds, or never end.
    Takes(&'static str, Option<u64>),
    /// The handler fails, and callers retry at once, up to twenty times.
    Fails(&'static str),
    /// Requests come so many times as often, always or in a second of each ten.
    Comes(&'static str, f64),
    Bursts(&'static str, f64),
    /// Callers leave after so many milliseconds.
    Impatient(&'static str, u64),
    /// Callers name themselves otherwise.
    Sends(&'static str, &'static str),
    /// A reload sets the limit, or caps of labels.
    Limit(usize),
    Caps(Vec<(&'static str, usize)>),
    RestartStore,
    KillStore,
    Freeze,
    /// The process runs for a quarter of the time, as one does that other processes leave too little.
    Throttle,
    Drain,
}

impl Deed {
    /// Whether the first line has to name it even where no request is harmed.
    pub(crate) const fn is_worth_a_word(&self) -> bool {
        match self {
            Self::Takes(..) | Self::Sends(..) | Self::KillStore | Self::Freeze | Self::Throttle | Self::Drain => true,
            Self::Comes(_, factor) => *factor < 0.1,
            _ => false,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Story {
    pub(crate) name: &'static str,
    pub(crate) settings: Settings,
    /// Callers, the header with their name, requests per second, and the milliseconds that one takes.
    flows: Vec<(&'static str, &'static str, f64, u64)>,
    pub(crate) deeds: Vec<Deed>,
}

impl Settings {
    fn builder(&self, name: &str, redis: Option<&Redis>) -> AdmissionBuilder {
        let labels = self.caps.iter().fold(Labels::new(), |labels, (name, cap)| labels.label_cap(*name, *cap));
        let builder = Admission::builder().name(name).limit(Fixed::new(self.limit)).queue(50).labels(labels);
        let builder = builder.max_wait(Duration::from_secs(2));
        let builder = self.partitions.iter().fold(builder, |it, (name, share)| it.partition(*name, percent(*share)));
        let Some(redis) = redis else { return builder };
        let is_open = self.shared == Some("open");
        let on_failure = if is_open { OnStoreFailure::FailOpen } else { OnStoreFailure::FailClosed };
        let cap = Cap::from(100).when_full(WhenFull::Reject).on_store_failure(on_failure);
        let rules = Rules::new().default_limits(ClassLimits::new().max_in_flight(cap));
        over(RedisStore::builder(&redis.url(), keys()).timeout(ms(1_000)), builder.rules(rules))
    }
}

/// Counts a request that runs, until it is dropped.
struct Running<'a>(&'a Flows, &'a str);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0[self.1].lock().unwrap().running -= 1;
    }
}

/// The handler. Its answer says for how many milliseconds it ran.
async fn run(flows: &Flows, headers: &HeaderMap) -> (StatusCode, String) {
    let caller = headers["x-caller"].to_str().unwrap();
    let (begin, _running) = (Instant::now(), Running(flows, caller));
    let flow = {
        let mut flow = flows[caller].lock().unwrap();
        flow.running += 1;
        *flow
    };
    match flow.takes {
        Some(takes) => sleep(ms(takes / 2 + fastrand::u64(..=takes))).await,
        None => std::future::pending().await,
    }
    let status = if flow.fails { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
    (status, begin.elapsed().as_millis().to_string())
}

enum Place {
    Here(Site, Option<Redis>),
    Elsewhere(Server),
}

/// A story that goes on.
pub(crate) struct World {
    pub(crate) story: Story,
    pub(crate) url: String,
    pub(crate) clients: Clients,
    flows: Flows,
    place: Place,
    throttle: Option<Child>,
}

impl World {
    pub(crate) async fn begin(story: Story) -> Self {
        let flows =
            story.flows.iter().map(|&(name, key, rate, takes)| (name, Flow::new(name, key, rate, takes).into()));
        let flows: Flows = Arc::new(flows.collect::<BTreeMap<_, _>>());
        let place = if story.settings.is_elsewhere {
            Place::Elsewhere(Server::start(story.name).await)
        } else {
            let mut redis = None;
            if story.settings.shared.is_some() {
                let server = Redis::start().await;
                server.end_quiet("drill").await;
                redis = Some(server);
            }
            let admission = story.settings.builder(story.name, redis.as_ref()).build().unwrap();
            let of = Arc::clone(&flows);
            let work = Router::new().route("/work", get(async move |headers: HeaderMap| run(&of, &headers).await));
            let introspection = admission.introspection().accept_workers(TOKEN);
            Place::Here(Site::start_over(&admission, introspection, work).await, redis)
        };
        let (app, url, path) = match &place {
            Place::Here(site, _) => (&site.app, site.admin.clone(), "/work"),
            Place::Elsewhere(server) => (&server.app, server.url.clone(), "/backend"),
        };
        let mut clients = Clients::of(app);
        flows.keys().for_each(|name| clients.come(&flows, name, path));
        Self { story, url, clients, flows, place, throttle: None }
    }

    /// The callers as they are now.
    pub(crate) fn flows(&self) -> Vec<Flow> {
        self.flows.values().map(|it| *it.lock().unwrap()).collect()
    }

    fn reload(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.story.settings);
        let Place::Here(site, redis) = &self.place else { unreachable!() };
        site.admission.reload(self.story.settings.builder(self.story.name, redis.as_ref())).unwrap();
    }

    pub(crate) async fn cause(&mut self, deed: Deed) {
        let of = |name: &str| self.flows[name].lock().unwrap();
        match (deed, &mut self.place) {
            (Deed::Takes(name, takes), _) => {
                of(name).takes = takes;
                if takes.is_none() {
                    // A caller that leaves would give the slot back.
                    of(name).patience = Duration::from_secs(3_600);
                }
            }
            (Deed::Fails(name), _) => (of(name).fails, of(name).retries) = (true, 20),
            (Deed::Comes(name, factor), _) => of(name).rate *= factor,
            (Deed::Bursts(name, factor), _) => of(name).burst = factor,
            (Deed::Impatient(name, patience), _) => of(name).patience = ms(patience),
            (Deed::Sends(name, value), _) => of(name).value = value,
            (Deed::Limit(limit), _) => self.reload(|it| it.limit = limit),
            (Deed::Caps(caps), _) => self.reload(|it| it.caps = caps),
            (Deed::KillStore, Place::Here(_, Some(redis))) => redis.kill(),
            (Deed::RestartStore, Place::Here(_, Some(redis))) => redis.restart_empty().await,
            (Deed::Drain, Place::Here(site, _)) => site.admission.drain(DrainMode::RejectWaiting),
            (Deed::Freeze, Place::Elsewhere(server)) => {
                server.process.signal("-STOP").await;
                sleep(FROZEN).await;
                server.process.signal("-CONT").await;
            }
            (Deed::Throttle, Place::Elsewhere(server)) => {
                let script = "while kill -STOP $0; do sleep 0.3; kill -CONT $0; sleep 0.1; done";
                let id = server.process.id().to_string();
                let mut command = Command::new("sh");
                self.throttle = Some(command.args(["-c", script, &id]).kill_on_drop(true).spawn().unwrap());
            }
            (deed, _) => panic!("{deed:?} needs another server"),
        }
    }
}

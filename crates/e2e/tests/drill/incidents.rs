//! The ten incidents: a server that is well, what is done to it, and what has to be told then.

use std::{sync::Arc, time::Duration};

use admission_testkit::ms;
use tower_admission::{
    Admission, AdmissionBuilder, Cap, ClassLimits, DrainMode, Labels, Rules, WhenFull,
    limit::{Aimd, Fixed},
    percent,
    store::{AfterRestart, Keys, Leases, RedisBuilder, RedisStore},
};

use super::{
    browser::Browser,
    clients::{Clients, Headers},
    process::Server,
    redis::{proxy::Proxy, server::Server as Redis},
    support::Site,
    told::Expected,
};

/// A server, its callers, and what is to happen.
pub(crate) struct Incident {
    pub(crate) name: &'static str,
    /// What is done to the server.
    pub(crate) what: &'static str,
    pub(crate) url: String,
    pub(crate) clients: Clients,
    pub(crate) expected: Expected,
    /// A page of its own, which is open before.
    pub(crate) browser: Option<Browser>,
    place: Place,
}

enum Place {
    Here(Site),
    Shared { _site: Site, redis: Redis, proxy: Proxy },
    Elsewhere(Server),
}

const NONE: Headers = &[];
const SHOP: Headers = &[("x-label", "shop")];
const STUCK: Headers = &[("x-label", "stuck")];
const WEB: Headers = &[("x-tenant", "web")];
const NOISY: Headers = &[("x-tenant", "noisy")];
/// A few of them load no server.
const FEW: usize = 3;

fn waits_shortly(name: &str) -> AdmissionBuilder {
    Admission::builder().name(name).wait_timeout(ms(200))
}

fn capped(cap: usize) -> AdmissionBuilder {
    waits_shortly("misconfigured cap").limit(Fixed::new(50)).labels(Labels::new().label_cap("shop", cap))
}

async fn site(
    name: &'static str,
    what: &'static str,
    builder: AdmissionBuilder,
    caller: (&'static str, Headers),
    expected: Expected,
) -> Incident {
    let site = Site::start(&builder.build().unwrap()).await;
    let mut clients = Clients::of(&site.app);
    clients.call(caller.0, FEW, "/backend", ms(100), caller.1);
    let url = site.admin.clone();
    Incident { name, what, url, clients, expected, browser: None, place: Place::Here(site) }
}

pub(super) fn keys() -> Keys {
    Keys::new("drill").unwrap()
}

/// Rules that all instances share by this store.
pub(super) fn over(store: RedisBuilder, builder: AdmissionBuilder) -> AdmissionBuilder {
    builder.shared(Leases::builder().local_shares(false).build(Arc::new(store.build().unwrap())), keys())
}

/// A server with a cap that all instances share, in a Redis behind a proxy.
async fn shared(name: &'static str, what: &'static str, expected: Expected) -> Incident {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let store = RedisStore::builder(&proxy.url(), keys()).after_restart(AfterRestart::Grant).timeout(ms(1_000));
    let cap = Cap::from(100).when_full(WhenFull::Reject);
    let rules = Rules::new().default_limits(ClassLimits::new().max_in_flight(cap));
    let builder = over(store, waits_shortly(name).limit(Fixed::new(50)).labels(Labels::new()).rules(rules));
    let mut incident = site(name, what, builder, ("shop", SHOP), expected).await;
    let Place::Here(site) = incident.place else { unreachable!() };
    incident.place = Place::Shared { _site: site, redis, proxy };
    incident
}

async fn frozen(name: &'static str) -> Incident {
    let server = Server::start(name).await;
    let mut clients = Clients::of(&server.app);
    clients.call("callers", FEW, "/backend", ms(100), NONE);
    let browser = Browser::start().await;
    browser.size(1440, 900, false).await;
    browser.open(&format!("{}/admission/ui", server.url)).await;
    let expected = Expected {
        which: &["all callers"],
        why: &["frozen, dead or out of reach"],
        what_now: &["take it out of the load balancer"],
        alerts: &["AdmissionNoAnswer"],
        ..Expected::default()
    };
    let (url, what) = (server.url.clone(), "SIGSTOP to the process");
    Incident { name, what, url, clients, expected, browser: Some(browser), place: Place::Elsewhere(server) }
}

/// All ten, before anything has happened.
pub(crate) async fn all() -> Vec<Incident> {
    let overloaded = || Expected {
        state: "overloaded",
        alerts: &["AdmissionRejects", "AdmissionOverloaded"],
        ..Expected::default()
    };
    // The last one counts in real time, and waits for it yet.
    let maybe: &[&str] = &["AdmissionSaturated", "AdmissionQueueFills", "AdmissionRejectsMany"];
    let noisy = Expected {
        which: &["noisy refused "],
        why: &["noisy holds "],
        what_now: &["have noisy send less, or give it a cap or a rate"],
        fields: &[("/health/rejected/0/name", "noisy")],
        maybe,
        ..overloaded()
    };
    let at_maximum = Expected {
        which: &["requests refused "],
        why: &["limit 8 at its maximum", "of 500 ms"],
        what_now: &["raise the maximum"],
        fields: &[("/limit_state/at_bound", "maximum"), ("/limit_state/state", "at_maximum")],
        maybe,
        ..overloaded()
    };
    let at_minimum = Expected {
        which: &["requests refused "],
        why: &["limit 2 at its minimum", "of 30 ms"],
        what_now: &["mend what is slow"],
        fields: &[("/limit_state/at_bound", "minimum")],
        maybe,
        ..overloaded()
    };
    let slow = Expected {
        which: &["requests refused "],
        // Where the law is on its way down depends on the second; what it advises does not.
        why: &["limit "],
        what_now: &["mend what is slow"],
        maybe,
        ..overloaded()
    };
    let dead = Expected {
        state: "store_gone",
        which: &["requests refused ", "most of them of shop"],
        why: &["store gone", "shared rules refuse"],
        what_now: &["bring the store back"],
        fields: &[("/store/state", "down"), ("/labels/labels/0/admission/*/status", "unavailable")],
        alerts: &["AdmissionStoreGone"],
        ..Expected::default()
    };
    let late = Expected {
        state: "store_slow",
        which: &["requests under shared rules wait"],
        why: &["store slow", "wait 3", " ms for its answers"],
        what_now: &["look at the store and at the way to it"],
        fields: &[("/store/state", "up")],
        alerts: &["AdmissionStoreSlow"],
        ..Expected::default()
    };
    let cap = Expected {
        state: "throttled",
        which: &["most of them of shop"],
        why: &["label cap 1"],
        what_now: &["if that bound is wrong, correct it and reload"],
        fields: &[("/health/rejected/0/reason", "label_cap")],
        alerts: &["AdmissionThrottles"],
        ..Expected::default()
    };
    let stuck = Expected {
        state: "throttled",
        which: &["most of them of stuck"],
        why: &["label cap 4"],
        what_now: &["if that bound is wrong, correct it and reload"],
        fields: &[("/health/label/name", "stuck")],
        alerts: &["AdmissionLabelWaitsInVain"],
        ..Expected::default()
    };
    let drains = Expected {
        state: "draining",
        which: &["no request is admitted", "/s refused"],
        why: &["draining"],
        what_now: &["take it out of the load balancer"],
        fields: &[("/ready", "false")],
        alerts: &["AdmissionDrainsForLong"],
        ..Expected::default()
    };
    let shares = waits_shortly("noisy tenant")
        .limit(Fixed::new(10))
        .partition("web", percent(50))
        .partition("noisy", percent(20));
    let aimd = |name, law: Aimd| waits_shortly(name).limit(law);
    let labels = Labels::new().label_cap("stuck", 4).metrics(10);
    vec![
        site("noisy tenant", "60 callers of the tenant noisy come, in a tight loop", shares, ("web", WEB), noisy).await,
        site(
            "limit at its maximum",
            "60 callers come, and the backend has room",
            aimd("limit at its maximum", Aimd::new(ms(500)).initial(8).max(8)),
            ("callers", NONE),
            at_maximum,
        )
        .await,
        site(
            "limit at its minimum",
            "the backend takes 150 ms, the threshold is 30 ms, and 20 callers come",
            aimd("limit at its minimum", Aimd::new(ms(30)).initial(20).min(2).max(20).backoff(0.5)),
            ("callers", NONE),
            at_minimum,
        )
        .await,
        site(
            "slow backend",
            "the backend takes 1 s rather than 10 ms, and 40 callers come",
            Admission::builder().name("slow backend").patience(Duration::from_secs(1)),
            ("callers", NONE),
            slow,
        )
        .await,
        shared("store dead", "its Redis is killed", dead).await,
        shared("store slow", "each answer of its Redis comes 300 ms later", late).await,
        site(
            "misconfigured cap",
            "a reload sets the cap of the label shop from 40 to 1",
            capped(40),
            ("shop", SHOP),
            cap,
        )
        .await,
        site(
            "one label stuck",
            "requests of the label stuck hang, and its cap is 4",
            waits_shortly("one label stuck").limit(Fixed::new(50)).labels(labels),
            ("shop", SHOP),
            stuck,
        )
        .await,
        site(
            "drain",
            "the handle drains, and callers keep coming",
            waits_shortly("drain").limit(Fixed::new(50)),
            ("callers", NONE),
            drains,
        )
        .await,
        frozen("frozen process").await,
    ]
}

impl Incident {
    /// Causes the incident.
    pub(crate) async fn cause(&mut self) {
        let (clients, takes) = (&mut self.clients, |site: &Site, time| site.backend_takes(time));
        match (self.name, &mut self.place) {
            ("noisy tenant", Place::Here(site)) => {
                takes(site, 50);
                clients.call("noisy", 60, "/backend", ms(10), NOISY);
            }
            ("limit at its maximum", Place::Here(site)) => {
                takes(site, 60);
                clients.call("callers", 60, "/backend", ms(50), NONE);
            }
            ("limit at its minimum", Place::Here(site)) => {
                takes(site, 150);
                clients.call("callers", 20, "/backend", ms(50), NONE);
            }
            ("slow backend", Place::Here(site)) => {
                takes(site, 1_000);
                clients.call("callers", 40, "/backend", ms(50), NONE);
            }
            ("store dead", Place::Shared { redis, .. }) => redis.kill(),
            ("store slow", Place::Shared { proxy, .. }) => proxy.delay(ms(300)),
            ("misconfigured cap", Place::Here(site)) => {
                takes(site, 100);
                clients.call("shop", 8, "/backend", ms(50), SHOP);
                clients.call("others", 1, "/backend", ms(50), NONE);
                site.admission.reload(capped(1)).unwrap();
            }
            // What they hold is held for as long as they have patience.
            ("one label stuck", Place::Here(_)) => clients.call("stuck", 8, "/held", ms(200), STUCK),
            ("drain", Place::Here(site)) => site.admission.drain(DrainMode::RejectWaiting),
            ("frozen process", Place::Elsewhere(server)) => server.process.signal("-STOP").await,
            (name, _) => panic!("{name} is not known"),
        }
    }
}

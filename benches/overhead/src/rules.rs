//! Requests that pass caps, rates and budgets, with many keys that are known.
//!
//! Of the rules that a request passes, five count its label (the cap of [`Labels`], the cap in flight, the rate, the bound
//! on what is pending, the slots of workers), two its namespace (the cap in flight and the rate), one its budget group, one
//! its partition and one everybody: ten rules of five scopes, one of each kind that there is.

use std::{
    cell::{Cell, RefCell},
    sync::{Arc, LazyLock},
    time::Duration,
};

use queue::{contestants::Ours, tasks::runtime, waiters::Waiters};
use tower::Layer;
use tower_admission::{
    Admission, AdmissionBuilder, AdmissionLayer, Cap, ClassLimits, Labels, Outcome, Rate, Rules, Ticket, WhenFull,
    WorkerReport, classify::RequestHead, limit::Fixed, percent,
};

use crate::contestants::{Contestant, HANDLER, Prepared, accepts};

/// So many labels are known, in a tenth as many namespaces.
const KEYS: usize = 100_000;
const MANY: usize = 1_000_000;

const NO_RULES: &str = "AdmissionLayer, no rules";

/// The one without rules comes first.
pub const RULES: &[Contestant] = &[
    one(NO_RULES, || layer(Admission::builder(), 0)),
    one("AdmissionLayer, no rules, one label", || layer(labels(Labels::new()), 1)),
    one("AdmissionLayer, no rules, 100,000 labels", || layer(labels(Labels::new()), KEYS)),
    one("AdmissionLayer, metrics of one label", || layer(labels(Labels::new().metrics(1)), 1)),
    one("AdmissionLayer, metrics of 1,000 of 100,000 labels", || layer(labels(Labels::new().metrics(1_000)), KEYS)),
    one("AdmissionLayer, nine rules, one label", || layer(nine_rules(Labels::new()), 1)),
    one("AdmissionLayer, nine rules, 100,000 labels", || layer(nine_rules(Labels::new()), KEYS)),
    one("AdmissionLayer, ten rules, 100,000 labels", || with_workers(KEYS)),
    Contestant { name: PERMIT, baseline: PERMIT, prepare: || permits(Admission::builder(), 0) },
    Contestant {
        name: "permit, nine rules, 100,000 labels",
        baseline: PERMIT,
        prepare: || permits(nine_rules(Labels::new()), KEYS),
    },
    Contestant { name: "permit, handed over", baseline: PERMIT, prepare: || handed_over(0) },
    Contestant { name: "permit, handed over, 1,000 labels", baseline: PERMIT, prepare: || handed_over(1_000) },
];

const PERMIT: &str = "permit, no rules";

const fn one(name: &'static str, prepare: fn() -> Box<dyn Prepared>) -> Contestant {
    Contestant { name, baseline: NO_RULES, prepare }
}

fn labels(labels: Labels) -> AdmissionBuilder {
    Admission::builder().labels(labels.max_labels(2 * KEYS))
}

/// One of each kind, and room in all of them.
fn nine_rules(with: Labels) -> AdmissionBuilder {
    let rate = || Rate::from(1_000_000_000);
    let limits = ClassLimits::new()
        .max_in_flight(Cap::from(MANY))
        .max_in_flight_per_namespace(Cap::from(MANY).when_full(WhenFull::Queue))
        .max_per_minute(rate().smooth())
        .max_per_minute_per_namespace(rate())
        .budget("shared", rate().smooth())
        .max_pending(MANY);
    labels(with.cap(MANY)).rules(Rules::new().class("work", limits)).partition("all", percent(50).hard_cap())
}

/// The names of all keys: namespace and label.
static NAMES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    (0..KEYS).map(|key| (format!("namespace-{:05}", key % (KEYS / 10)), format!("queue-{key:06}"))).collect()
});

thread_local! {
    static NEXT: Cell<usize> = const { Cell::new(0) };
}

/// The key of the next request, in an order that no cache foresees.
fn next_key(keys: usize) -> &'static (String, String) {
    let next = (NEXT.get() + 61_803) % keys;
    NEXT.set(next);
    &NAMES[next]
}

fn fill(ticket: &mut Ticket<'_>, keys: usize) {
    ticket.set_partition("all");
    if keys > 0 {
        let (namespace, label) = next_key(keys);
        ticket.set_class("work");
        ticket.set_namespace(namespace.as_str());
        ticket.set_label(label.as_str());
    }
}

/// With all keys known.
fn admission(builder: AdmissionBuilder, keys: usize) -> Admission {
    let admission = builder.limit(Fixed::new(2 * MANY)).shed().build().expect("valid settings");
    for _ in 0..keys {
        let mut ticket = Ticket::new();
        fill(&mut ticket, keys);
        admission.try_admit(ticket).expect("there is room").finish(Outcome::Success);
    }
    assert_eq!(admission.snapshot().labels.len(), keys);
    admission
}

/// The same with a worker for each of them, whose slots are one rule more.
fn with_workers(keys: usize) -> Box<dyn Prepared> {
    let builder = nine_rules(Labels::new().enforce_workers(true));
    let admission = admission(builder, keys);
    for (namespace, label) in &NAMES[..keys] {
        let report = WorkerReport::new(label, "worker").namespace(namespace).class("work").max_concurrent(MANY);
        admission.report_worker(&report.valid_for(Duration::from_secs(1_000_000)));
    }
    through(&admission, keys)
}

fn layer(builder: AdmissionBuilder, keys: usize) -> Box<dyn Prepared> {
    through(&admission(builder, keys), keys)
}

fn through(admission: &Admission, keys: usize) -> Box<dyn Prepared> {
    let classify = move |_: &RequestHead<'_>, ticket: &mut Ticket<'_>| fill(ticket, keys);
    accepts(AdmissionLayer::new(admission).classify(classify).layer(HANDLER))
}

struct Permits(Arc<Admission>, usize);

fn permits(builder: AdmissionBuilder, keys: usize) -> Box<dyn Prepared> {
    Box::new(Permits(Arc::new(admission(builder, keys)), keys))
}

impl Prepared for Permits {
    #[inline(never)]
    fn run(&self, count: u64) {
        for _ in 0..count {
            let mut ticket = Ticket::new();
            fill(&mut ticket, self.1);
            let permit = self.0.try_admit(ticket).expect("there is room");
            permit.finish(Outcome::Success);
        }
    }
}

/// A slot goes from one waiter to the next, while a hundred wait: it is given back, the next one fetches it, and one more joins.
fn handed_over(labels: usize) -> Box<dyn Prepared> {
    // Where requests wait, a handle wants a runtime to drive itself.
    std::mem::forget(Box::leak(Box::new(runtime())).enter());
    let mut waiters = Waiters::new(Box::leak(Box::new(Ours::new(100, labels))), 100);
    (0..100).for_each(|_| waiters.join());
    Box::new(RefCell::new(waiters))
}

impl Prepared for RefCell<Waiters<'static, Ours>> {
    #[inline(never)]
    fn run(&self, count: u64) {
        (0..count).for_each(|_| self.borrow_mut().hand_over());
    }
}

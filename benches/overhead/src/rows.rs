//! The paths that have targets of their own, as far as no other list has them: see the README.

use std::{cell::Cell, num::NonZeroU32, sync::LazyLock, time::Duration};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tower::Layer;
use tower_admission::{
    AdaptiveConcurrencyLayer, Admission, AdmissionLayer, Criticality, Labels, Ticket,
    classify::{RequestHead, by_header},
    limit::{Aimd, Fixed, Limit, TwoPoint},
    percent,
    response::AdmissionBody,
};

use crate::{
    contestants::{
        BARE, BARE_DROPPING, Contestant, HANDLER, MANY, TOWER_ACC, accepting, accepts, accepts_beside, aimd, find,
    },
    drive::{GROUP_HEADER, unread},
    signals::Published,
};

const TWO_POINT: &str = "AdaptiveConcurrencyLayer, TwoPoint";
#[cfg(feature = "clocks")]
const PROCESSOR_CLOCK: &str = "AdaptiveConcurrencyLayer, no partitions, processor clock";
const ONE_IN_EIGHT: &str = "AdaptiveConcurrencyLayer, one in eight timed";
const EACH: &str = "AdaptiveConcurrencyLayer, each timed";
const README: &str = "AdmissionLayer, README settings";
const README_PUBLISHED: &str = "AdmissionLayer, README settings, journal and metrics";
const LABELS: &str = "AdmissionLayer, 10,000 labels with a cap each";
const FEW_LABELS: &str = "AdmissionLayer, ten labels with a cap each";
const BUSY: &str = "AdmissionLayer, busy";
const BUSY_SINCE: &str = "AdmissionLayer, busy since a quiet time";
const BUSY_ADAPTIVE: &str = "AdaptiveConcurrencyLayer, busy";

pub const ROWS: &[Contestant] = &[
    accepting(TWO_POINT, || {
        let layer = AdaptiveConcurrencyLayer::new(two_point());
        accepts(layer.expect("valid settings").layer(HANDLER))
    }),
    #[cfg(feature = "clocks")]
    accepting(PROCESSOR_CLOCK, || {
        let layer = AdaptiveConcurrencyLayer::with(aimd(MANY), tower_admission::AdmissionBuilder::processor_clock);
        accepts(layer.expect("valid settings").layer(HANDLER))
    }),
    accepting(ONE_IN_EIGHT, || {
        let layer = AdaptiveConcurrencyLayer::with(aimd(MANY), |admission| {
            admission.time_one_in(NonZeroU32::new(8).expect("it is not 0"))
        });
        accepts(layer.expect("valid settings").layer(HANDLER))
    }),
    accepting(EACH, || {
        let layer = AdaptiveConcurrencyLayer::with(aimd(MANY), |admission| admission.time_one_in(NonZeroU32::MIN));
        accepts(layer.expect("valid settings").layer(HANDLER))
    }),
    accepting(README, || accepts(readme_layer(&readme()).layer(HANDLER))),
    accepting(README_PUBLISHED, || {
        let admission = readme();
        Published::boxed(&admission, accepts(readme_layer(&admission).layer(HANDLER)))
    }),
    accepting(LABELS, || accepts(labels(KEYS).layer(HANDLER))),
    accepting(FEW_LABELS, || accepts(labels(10).layer(HANDLER))),
    accepting(BUSY, || {
        let admission = admission(Fixed::new(MANY));
        let occupied = busy(&admission);
        accepts_beside(AdmissionLayer::new(&admission).layer(HANDLER), occupied)
    }),
    accepting(BUSY_SINCE, || {
        let layer = AdmissionLayer::new(&admission(Fixed::new(MANY)));
        let occupied: Vec<_> = (1..MANY).map(|_| unread(&layer.layer(HANDLER))).collect();
        accepts_beside(layer.layer(HANDLER), occupied)
    }),
    accepting(BUSY_ADAPTIVE, || {
        let admission = admission(aimd(MANY));
        let occupied = busy(&admission);
        accepts_beside(AdmissionLayer::new(&admission).layer(HANDLER), occupied)
    }),
];

/// All paths with targets, those of the other lists included, and what they are compared with.
#[must_use]
pub fn targets() -> Vec<Contestant> {
    let names = [
        BARE,
        BARE_DROPPING,
        TOWER_ACC,
        "tower ConcurrencyLimit",
        "AdmissionLayer",
        "AdaptiveConcurrencyLayer, no partitions",
        #[cfg(feature = "clocks")]
        PROCESSOR_CLOCK,
        TWO_POINT,
        ONE_IN_EIGHT,
        EACH,
        README,
        README_PUBLISHED,
        LABELS,
        FEW_LABELS,
        BUSY,
        BUSY_SINCE,
        BUSY_ADAPTIVE,
        "AdmissionLayer, bare rejection",
        "AdmissionLayer, rejection",
    ];
    names.map(|name| *find(name).expect("each of them takes part")).to_vec()
}

pub(crate) fn two_point() -> TwoPoint {
    TwoPoint::new().initial(MANY).max(MANY)
}

pub(crate) fn admission(limit: impl Into<Limit>) -> Admission {
    Admission::builder().limit(limit).shed().build().expect("valid settings")
}

/// What the first example of the project's README sets, with four partitions rather than two.
pub(crate) fn readme() -> Admission {
    Admission::builder()
        .limit(Aimd::new(Duration::from_millis(250)))
        .queue(400)
        .max_wait(Duration::from_secs(10))
        .partition("checkout", percent(60))
        .partition("search", percent(10))
        .partition("reports", percent(10))
        .partition("batch", percent(20).hard_cap())
        .build()
        .expect("valid settings")
}

pub(crate) fn readme_layer(admission: &Admission) -> AdmissionLayer {
    AdmissionLayer::new(admission).classify(by_header(GROUP_HEADER))
}

/// Takes all slots but the last: each further request finds exactly that one, and the engine decides about it.
///
/// The engine gives these slots itself, since requests of unusual importance never take the quiet path. That is how it is
/// on a server that has been busy for a while.
pub(crate) fn busy(admission: &Admission) -> Vec<Response<AdmissionBody<Full<Bytes>>>> {
    let held = |_: &RequestHead<'_>, ticket: &mut Ticket<'_>| ticket.set_criticality(Criticality::CriticalPlus);
    let service = AdmissionLayer::new(admission).classify(held).layer(HANDLER);
    (1..MANY).map(|_| unread(&service)).collect()
}

const KEYS: usize = 10_000;

static TENANTS: LazyLock<Vec<String>> = LazyLock::new(|| (0..KEYS).map(|key| format!("tenant-{key:05}")).collect());

thread_local! {
    static NEXT: Cell<usize> = const { Cell::new(0) };
}

/// So many labels, each with a cap of its own and known already. Many of them come in an order that no cache foresees.
fn labels(count: usize) -> AdmissionLayer {
    let tenants = &TENANTS[..count];
    let labels = tenants.iter().enumerate().fold(Labels::new(), |labels, (key, tenant)| {
        // No two neighbours have the same cap, and there is room below each.
        labels.label_cap(tenant, 2 + key % 7)
    });
    let admission = Admission::builder().limit(Fixed::new(MANY)).labels(labels).shed().build().expect("valid settings");
    for tenant in tenants {
        drop(admission.try_admit(Ticket::new().label(tenant)).expect("there is room"));
    }
    assert_eq!(admission.snapshot().labels.len(), count);
    AdmissionLayer::new(&admission).classify(move |_: &RequestHead<'_>, ticket: &mut Ticket<'_>| {
        let next = (NEXT.get() + 6_181) % count;
        NEXT.set(next);
        ticket.set_label(TENANTS[next].as_str());
    })
}

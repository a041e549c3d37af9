//! Who takes part.

use std::{
    any::Any,
    convert::Infallible,
    future::{Ready, ready},
    num::NonZeroU32,
    task::{Context, Poll},
    time::Duration,
};

use http::Response;
use http_body::Body;
use tower::{
    Layer, Service,
    limit::{ConcurrencyLimitLayer, GlobalConcurrencyLimitLayer},
    load_shed::LoadShed,
};
use tower_admission::{
    AdaptiveConcurrencyLayer, Admission, AdmissionBuilder, AdmissionLayer, Clock, Outcome, Ticket,
    classify::by_header,
    limit::{Aimd, Fixed, Gradient, Gradient2, Limit, TwoPoint, Vegas},
    percent,
    policy::{Policy, ReleaseAt},
    response::Rejections,
};

use crate::drive::{Answer, GROUP_HEADER, GROUPS, Incoming, answer, recycle, requests, reserved, unread};
pub use crate::{real::REAL, router::ROUTER, rows::ROWS, rules::RULES, signals::SIGNALS};

/// Somebody who takes part, not set up yet.
#[derive(Clone, Copy, Debug)]
pub struct Contestant {
    pub name: &'static str,
    /// Whom it is compared with: the bare handler that does with requests what becomes of them here.
    pub baseline: &'static str,
    pub prepare: fn() -> Box<dyn Prepared>,
}

/// A contestant that is set up.
pub trait Prepared {
    /// Sends this many requests.
    fn run(&self, requests: u64);

    /// Bytes of the service, of its future and of the body of its responses, where there is a service.
    fn sizes(&self) -> [usize; 3] {
        [0; 3]
    }
}

pub const BARE: &str = "bare";
pub const BARE_DROPPING: &str = "bare, dropping requests";
pub const TOWER_ACC: &str = "tower-acc Aimd";

pub(crate) const fn accepting(name: &'static str, prepare: fn() -> Box<dyn Prepared>) -> Contestant {
    Contestant { name, baseline: BARE, prepare }
}

pub(crate) const fn rejecting(name: &'static str, prepare: fn() -> Box<dyn Prepared>) -> Contestant {
    Contestant { name, baseline: BARE_DROPPING, prepare }
}

/// Enough slots for everybody, and a single one that is taken.
pub(crate) const MANY: usize = 100;
pub(crate) const ONE: usize = 1;

/// Those that get requests. The baselines come first.
pub const SERVICES: &[Contestant] = &[
    accepting(BARE, || accepts(Handler::<true>)),
    rejecting(BARE_DROPPING, || accepts(Handler::<false>)),
    accepting("AdmissionLayer", || accepts(fixed(MANY, Rejections::new()).layer(HANDLER))),
    accepting("AdaptiveConcurrencyLayer, no partitions, until the head", || {
        let until_the_head = Policy::new().release_at(ReleaseAt::ResponseHead);
        accepts(adaptive_alone().map(|layer| layer.policy(until_the_head)).layer(HANDLER))
    }),
    accepting("AdaptiveConcurrencyLayer, no partitions", || accepts(adaptive_alone().layer(HANDLER))),
    accepting("AdaptiveConcurrencyLayer", || accepts(adaptive(MANY, Rejections::new()).layer(HANDLER))),
    accepting("tower ConcurrencyLimit", || accepts(ConcurrencyLimitLayer::new(MANY).layer(HANDLER))),
    accepting("tower GlobalConcurrencyLimit", || accepts(GlobalConcurrencyLimitLayer::new(MANY).layer(HANDLER))),
    accepting("tower LoadShed + ConcurrencyLimit", || {
        accepts(LoadShed::new(ConcurrencyLimitLayer::new(MANY).layer(HANDLER)))
    }),
    accepting(TOWER_ACC, || accepts(tower_acc(MANY).layer(HANDLER))),
    accepting("LoadShed + tower-acc Aimd", || accepts(LoadShed::new(tower_acc(MANY).layer(HANDLER)))),
    accepting("tower-resilience-adaptive Aimd", || accepts(resilience(MANY).layer(HANDLER))),
    rejecting("AdmissionLayer, bare rejection", || rejects_ours(fixed(ONE, Rejections::new().bare()).layer(HANDLER))),
    rejecting("AdmissionLayer, rejection", || rejects_ours(fixed(ONE, Rejections::new()).layer(HANDLER))),
    rejecting("AdaptiveConcurrencyLayer, bare rejection", || {
        rejects_full(adaptive(GROUPS.len(), Rejections::new().bare()).layer(HANDLER), GROUPS.len())
    }),
    rejecting("AdaptiveConcurrencyLayer, rejection", || {
        rejects_full(adaptive(GROUPS.len(), Rejections::new()).layer(HANDLER), GROUPS.len())
    }),
    rejecting("LoadShed + ConcurrencyLimit, rejection", || rejects(ConcurrencyLimitLayer::new(ONE).layer(HANDLER))),
    rejecting("LoadShed + tower-acc Aimd, rejection", || rejects(tower_acc(ONE).layer(HANDLER))),
    rejecting("LoadShed + tower-resilience Aimd, rejection", || rejects(resilience(ONE).layer(HANDLER))),
];

/// A permit and its sample without any service around it: what one law costs more than another is its own cost.
pub const LAWS: &[Contestant] = &[
    law("Fixed", || of_law(Fixed::new(MANY))),
    law("Fixed, and a clock that stands still", || permits(admission().limit(Fixed::new(MANY)).clock(Still))),
    law("Fixed, each timed", || each_timed(Fixed::new(MANY))),
    law("Aimd, one step per sample", || of_law(Limit::per_sample(aimd(MANY)))),
    law("Aimd behind the default window", || of_law(aimd(MANY))),
    law("Vegas, one step per sample", || of_law(Limit::per_sample(Vegas::new().initial(MANY).max(MANY)))),
    law("Gradient2, one step per sample", || of_law(Limit::per_sample(Gradient2::new().initial(MANY).max(MANY)))),
    law("Gradient", || of_law(Gradient::new().max(MANY))),
    law("TwoPoint", || of_law(TwoPoint::new().initial(MANY).max(MANY))),
    law("TwoPoint, each timed", || each_timed(TwoPoint::new().initial(MANY).max(MANY))),
];

const fn law(name: &'static str, prepare: fn() -> Box<dyn Prepared>) -> Contestant {
    Contestant { name, baseline: "Fixed", prepare }
}

/// All of them. What others are compared with takes part in several lists, and comes several times.
pub fn all() -> impl Iterator<Item = &'static Contestant> {
    [SERVICES, LAWS, RULES, SIGNALS, ROWS, ROUTER, REAL].into_iter().flatten()
}

/// Of all of them, the one with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Contestant> {
    all().find(|contestant| contestant.name == name)
}

/// Nobody is slower than this, so no law ever decreases.
pub(crate) const THRESHOLD: Duration = Duration::from_secs(5);

pub(crate) const fn aimd(limit: usize) -> Aimd {
    Aimd::new(THRESHOLD).initial(limit).max(limit)
}

pub(crate) fn fixed(limit: usize, rejections: Rejections) -> AdmissionLayer {
    let admission = Admission::builder().limit(Fixed::new(limit)).shed().build().expect("valid settings");
    AdmissionLayer::new(&admission).rejections(rejections)
}

fn adaptive_alone() -> AdaptiveConcurrencyLayer {
    AdaptiveConcurrencyLayer::new(aimd(MANY)).expect("valid settings")
}

/// AIMD behind the default window, a quarter of the limit for each group.
fn adaptive(limit: usize, rejections: Rejections) -> AdaptiveConcurrencyLayer {
    let layer = AdaptiveConcurrencyLayer::with(aimd(limit), |admission| {
        GROUPS.into_iter().fold(admission, |admission, group| admission.partition(group, percent(25)))
    });
    layer.expect("valid settings").map(|layer| layer.classify(by_header(GROUP_HEADER)).rejections(rejections))
}

pub(crate) fn tower_acc(limit: usize) -> tower_acc::ConcurrencyLimitLayer<tower_acc::Aimd> {
    let law = tower_acc::Aimd::builder().initial_limit(limit).min_limit(1).max_limit(limit).timeout(THRESHOLD);
    tower_acc::ConcurrencyLimitLayer::new(law.build())
}

fn resilience(limit: usize) -> tower_resilience_adaptive::AdaptiveLimiterLayer<tower_resilience_adaptive::Aimd> {
    let law = tower_resilience_adaptive::Aimd::builder()
        .initial_limit(limit)
        .min_limit(1)
        .max_limit(limit)
        .latency_threshold(THRESHOLD);
    tower_resilience_adaptive::AdaptiveLimiterLayer::new(law.build().expect("valid settings"))
}

/// The service behind all of them.
#[derive(Clone, Copy, Debug)]
pub struct Handler<const RECYCLES: bool>;

pub const HANDLER: Handler<true> = Handler;

impl<const RECYCLES: bool> Service<Incoming> for Handler<RECYCLES> {
    type Response = Answer;
    type Error = Infallible;
    type Future = Ready<Result<Answer, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Incoming) -> Self::Future {
        if RECYCLES {
            recycle(request);
        }
        ready(Ok(answer()))
    }
}

struct Setup<S> {
    service: S,
    /// What occupies slots for as long as requests are sent.
    _occupied: Option<Box<dyn Any>>,
}

pub(crate) fn accepts<S, B>(service: S) -> Box<dyn Prepared>
where
    S: Service<Incoming, Response = Response<B>> + Clone + 'static,
    B: Body,
{
    Box::new(Setup { service, _occupied: None })
}

/// The same while something else occupies slots.
pub(crate) fn accepts_beside<S, B>(service: S, occupied: impl Any) -> Box<dyn Prepared>
where
    S: Service<Incoming, Response = Response<B>> + Clone + 'static,
    B: Body,
{
    Box::new(Setup { service, _occupied: Some(Box::new(occupied)) })
}

/// The only slot is taken by an answer that nobody reads.
pub(crate) fn rejects_ours<S, B>(service: S) -> Box<dyn Prepared>
where
    S: Service<Incoming, Response = Response<B>> + Clone + 'static,
    B: Body + 'static,
{
    rejects_full(service, ONE)
}

/// The same where responses that nobody reads take so many slots: each group has its share, and what comes then is beyond it.
fn rejects_full<S, B>(service: S, slots: usize) -> Box<dyn Prepared>
where
    S: Service<Incoming, Response = Response<B>> + Clone + 'static,
    B: Body + 'static,
{
    let occupied: Vec<_> = (0..slots).map(|_| unread(&service)).collect();
    Box::new(Setup { service, _occupied: Some(Box::new(occupied)) })
}

/// The only slot is taken by a clone that is ready; the others are told so by `LoadShed`.
fn rejects<S, B>(service: S) -> Box<dyn Prepared>
where
    S: Service<Incoming, Response = Response<B>> + Clone + 'static,
    S::Error: Into<tower::BoxError>,
    B: Body,
{
    let occupied = reserved(&service);
    Box::new(Setup { service: LoadShed::new(service), _occupied: Some(Box::new(occupied)) })
}

impl<S, B> Prepared for Setup<S>
where
    S: Service<Incoming, Response = Response<B>> + Clone,
    B: Body,
{
    fn run(&self, count: u64) {
        requests(&self.service, count);
    }

    fn sizes(&self) -> [usize; 3] {
        [size_of::<S>(), size_of::<S::Future>(), size_of::<B>()]
    }
}

struct Permits(Admission);

fn of_law(law: impl Into<Limit>) -> Box<dyn Prepared> {
    permits(admission().limit(law))
}

fn permits(builder: AdmissionBuilder) -> Box<dyn Prepared> {
    Box::new(Permits(builder.build().expect("valid settings")))
}

fn each_timed(law: impl Into<Limit>) -> Box<dyn Prepared> {
    permits(admission().limit(law).time_one_in(NonZeroU32::MIN))
}

fn admission() -> AdmissionBuilder {
    Admission::builder().shed()
}

/// A clock that costs nothing: what it saves is the cost of reading one twice.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::from_secs(1)
    }
}

impl Prepared for Permits {
    #[inline(never)]
    fn run(&self, count: u64) {
        for _ in 0..count {
            let permit = self.0.try_admit(Ticket::new()).expect("there is room");
            permit.finish(Outcome::Success);
        }
    }
}

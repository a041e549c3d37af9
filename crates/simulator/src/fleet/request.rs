//! The life of a request, as its caller and its handler see it: what they see goes to the ledger.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Sleep, sleep};
use tower::{Layer, Service};
use tower_admission::{Admission, AdmissionLayer, Outcome, Permit, Rejection, Ticket, generic::AdmissionError};

use super::{
    here::Here,
    law::panic_on_purpose,
    ledger::{Event, Kinds},
    plan::{Caller, Ends, Kind},
};
use crate::random::Stream;

/// A request, with all that was drawn for it.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) id: u64,
    kind: Kind,
    work: u64,
    label: Option<u8>,
    partition: u8,
    ends: Ends,
    deadline: Option<u64>,
    fails: bool,
}

const LABELS: [&str; 3] = ["x", "y", "z"];
const PARTITIONS: [&str; 3] = ["default", "hard", "soft"];

/// Returns the name of a label.
pub(super) fn label(number: u8) -> &'static str {
    LABELS[usize::from(number) % LABELS.len()]
}

impl Request {
    /// Draws the request of a caller with this number.
    pub(super) fn draw(seed: u64, caller: &Caller, index: usize, number: u32, id: u64) -> Self {
        let rng = &mut Stream::new(seed, 200 + index as u64, number.into());
        let ends = match caller.ends {
            Ends::GivesUp(mean) => Ends::GivesUp(rng.about(mean)),
            Ends::GivesUpAtPoll(most) => Ends::GivesUpAtPoll(u32::try_from(rng.between(1, most.into())).unwrap_or(1)),
            // Now and then, so that the others meet what is left behind.
            Ends::Panics | Ends::ClassifierPanics | Ends::Abandons if !rng.happens(400) => Ends::Well,
            Ends::Stuck if !rng.happens(60) => Ends::Well,
            ends => ends,
        };
        Self {
            id,
            kind: caller.kind,
            work: rng.about(caller.work),
            label: caller.label,
            partition: caller.partition,
            ends,
            deadline: caller.deadline,
            fails: rng.happens(100),
        }
    }

    pub(super) fn kinds(&self, partitions: bool) -> Kinds {
        Kinds {
            shared: self.kind == Kind::Shared,
            label: self.label,
            partition: if partitions { self.partition } else { 0 },
            waits: self.kind != Kind::TryAdmit,
        }
    }

    fn ticket(&self) -> Ticket<'static> {
        let mut ticket = Ticket::new().partition(PARTITIONS[usize::from(self.partition)]);
        if let Some(number) = self.label {
            ticket.set_label(label(number));
        }
        if self.kind == Kind::Shared {
            ticket.set_class("work");
        }
        if let Some(deadline) = self.deadline {
            ticket.limit_timeout(Duration::from_millis(deadline));
        }
        ticket
    }

    fn outcome(&self) -> Outcome {
        if self.fails { Outcome::Overload } else { Outcome::Success }
    }

    /// Lives, and is given up where that was drawn.
    pub(super) async fn live(self, here: Here) {
        here.note(Event::Arrived(self.id, self.kinds(here.has_partitions())));
        let ends = self.ends;
        let life = Fate::of(&here, self.id).follow(self);
        match ends {
            Ends::GivesUp(after) => GivesUp::new(life, Some(after), u32::MAX).await,
            Ends::GivesUpAtPoll(polls) => GivesUp::new(life, None, polls).await,
            _ => life.await,
        }
    }
}

/// Has the ledger know what became of a request, however it ends.
struct Fate {
    here: Here,
    id: u64,
    is_known: bool,
}

impl Fate {
    fn of(here: &Here, id: u64) -> Self {
        Self { here: here.clone(), id, is_known: false }
    }

    fn rejected(&mut self, rejection: &Rejection) {
        self.is_known = true;
        self.here.note(Event::Rejected(self.id, rejection.reason()));
    }

    async fn follow(mut self, request: Request) {
        let admission = self.here.admission();
        match request.kind {
            Kind::Layer => self.through_layer(&admission, request).await,
            Kind::TryAdmit => {
                let answer = admission.try_admit(request.ticket());
                self.handle(answer, request).await;
            }
            Kind::Admit | Kind::Shared => {
                let answer = admission.admit(request.ticket()).await;
                self.handle(answer, request).await;
            }
        }
    }

    async fn handle(&mut self, answer: Result<Permit, Rejection>, request: Request) {
        match answer {
            Ok(permit) => {
                self.is_known = true;
                let running = Running::new(&self.here, request.id, Some(permit));
                running.work(&request).await;
            }
            Err(rejection) => self.rejected(&rejection),
        }
    }

    async fn through_layer(&mut self, admission: &Admission, request: Request) {
        let classify = |request: &Request, ticket: &mut Ticket<'_>| {
            if request.ends == Ends::ClassifierPanics {
                panic_on_purpose();
            }
            if let Some(number) = request.label {
                ticket.set_label(label(number));
            }
            ticket.set_partition(PARTITIONS[usize::from(request.partition)]);
        };
        let layer = AdmissionLayer::new(admission).generic().classify(classify);
        let mut service = layer.layer(Handler { here: self.here.clone() });
        match service.call(request).await {
            Ok(()) | Err(AdmissionError::Inner(())) => self.is_known = true,
            Err(AdmissionError::Rejected(rejection)) => self.rejected(&rejection),
            Err(_) => {}
        }
    }
}

impl Drop for Fate {
    fn drop(&mut self) {
        if !self.is_known {
            self.here.note(Event::Cancelled(self.id));
        }
    }
}

/// A service behind the layer.
#[derive(Clone)]
struct Handler {
    here: Here,
}

impl Service<Request> for Handler {
    type Response = ();
    type Error = ();
    type Future = Pin<Box<dyn Future<Output = Result<(), ()>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let running = Running::new(&self.here, request.id, None);
        Box::pin(async move {
            running.work(&request).await;
            if request.fails { Err(()) } else { Ok(()) }
        })
    }
}

/// A request that runs. The ledger knows that it ends before its slot goes back.
struct Running {
    here: Here,
    id: u64,
    permit: Option<Permit>,
    is_over: bool,
}

impl Running {
    fn new(here: &Here, id: u64, permit: Option<Permit>) -> Self {
        here.note(Event::Started(id));
        Self { here: here.clone(), id, permit, is_over: false }
    }

    async fn work(mut self, request: &Request) {
        self.do_work(request).await;
        if request.ends == Ends::Panics {
            panic_on_purpose();
        }
        let Some(permit) = self.permit.take() else { return };
        let abandons = request.ends == Ends::Abandons;
        self.is_over = true;
        self.here.note(if abandons { Event::Abandoned(self.id) } else { Event::Ended(self.id) });
        if self.here.keeps_permits() && request.fails {
            std::mem::forget(permit);
        } else if abandons {
            permit.abandon();
        } else {
            permit.finish(request.outcome());
        }
    }

    async fn do_work(&mut self, request: &Request) {
        let (here, id) = (self.here.clone(), self.id);
        let mut work = pin!(async {
            if request.ends == Ends::Stuck {
                here.rest().await;
            } else {
                sleep(Duration::from_millis(request.work)).await;
            }
        });
        let Some(permit) = &self.permit else { return work.await };
        let mut lease = permit.lease().map(|lease| Box::pin(async move { lease.wait().await }));
        let mut expired = Some(Box::pin(permit.expired()));
        poll_fn(|cx| {
            if lease.as_mut().is_some_and(|lost| lost.as_mut().poll(cx).is_ready()) {
                lease = None;
                self.here.note(Event::Lost(id));
                if request.ends != Ends::Stubborn {
                    return Poll::Ready(());
                }
            }
            if expired.as_mut().is_some_and(|expired| expired.as_mut().poll(cx).is_ready()) {
                expired = None;
                self.here.note(Event::Overdue(id));
            }
            work.as_mut().poll(cx)
        })
        .await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            self.here.note(Event::Ended(self.id));
        }
    }
}

/// Drops a future after a time, or when it was polled for this time.
struct GivesUp<F> {
    inner: Pin<Box<F>>,
    after: Option<Pin<Box<Sleep>>>,
    polls: u32,
}

impl<F: Future<Output = ()>> GivesUp<F> {
    fn new(inner: F, after: Option<u64>, polls: u32) -> Self {
        let after = after.map(|after| Box::pin(sleep(Duration::from_millis(after))));
        Self { inner: Box::pin(inner), after, polls }
    }
}

impl<F: Future<Output = ()>> Future for GivesUp<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.inner.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        self.polls -= 1;
        let is_over = self.after.as_mut().is_some_and(|after| after.as_mut().poll(cx).is_ready());
        if is_over || self.polls == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

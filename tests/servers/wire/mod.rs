//! What a rejected request is told, as it goes over the wire.

mod carried;
mod forwarded;
mod grpc;
mod http;
mod load;
mod refusals;

use std::time::Duration;

use admission_testkit::{Mood, Moody};
use tokio::task::JoinHandle;
use tower_admission::{
    Admission, AdmissionBuilder, ClassLimits, Criticality, DrainMode, Labels, Permit, Reason, Rejection, Rules, Ticket,
    classify::RequestHead, limit::Fixed, percent,
};

use crate::support::eventually;

const SOON: Duration = Duration::from_millis(10);

/// Whether callers ran into a bound of their own.
fn is_caller_limit(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::Deadline
            | Reason::Draining
            | Reason::GateFull
            | Reason::GateTimeout
            | Reason::Limit
            | Reason::PendingUnavailable
            | Reason::PushedOut
            | Reason::QueueFull
            | Reason::QueueTimeout
            | Reason::StoreUnavailable
    )
}

/// A server that is full in such a way that the next request is rejected for one particular reason.
struct Full {
    admission: Admission,
    /// In seconds, for the reason that is the caller's deadline.
    deadline: Option<&'static str>,
    permit: Permit,
    waiters: Vec<JoinHandle<Result<Permit, Rejection>>>,
}

impl Full {
    /// The partition of all requests: its name must be encoded in gRPC messages.
    const PARTITION: &str = "büro 100%";

    async fn because_of(reason: Reason) -> Self {
        let (one, store) = (|| Admission::builder().limit(Fixed::new(1)), Moody::new());
        let rules = |limits| one().limit(Fixed::new(2)).rules(Rules::new().default_limits(limits));
        // In line, and at the gate.
        let (builder, waiting): (AdmissionBuilder, _) = match reason {
            Reason::Deadline => (one().queue(1), 0),
            Reason::Draining => (one().queue(1), 0),
            Reason::GateFull => (one().queue(1).max_waiting(0), 1),
            Reason::GateTimeout => (one().queue(1).admission_timeout(SOON), 1),
            Reason::Budget => (rules(ClassLimits::new().budget("shared", 1)), 0),
            Reason::NamespaceCap => (rules(ClassLimits::new().max_in_flight_per_namespace(1)), 0),
            Reason::PendingFull => (rules(ClassLimits::new().max_pending(1)), 0),
            Reason::PendingUnavailable => {
                (store.shared_by(rules(ClassLimits::new().max_in_flight(2).max_pending(9))), 0)
            }
            Reason::StoreUnavailable => (store.shared_by(rules(ClassLimits::new().max_in_flight(2))), 0),
            Reason::Rate => (rules(ClassLimits::new().max_per_minute(1)), 0),
            Reason::LabelCap => (one().limit(Fixed::new(2)).shed().labels(Labels::new().label_cap("loud", 1)), 0),
            Reason::LabelQueueFull => (one().queue(9).labels(Labels::new().max_waiting(1)), 1),
            Reason::Limit => (one().shed(), 0),
            Reason::PartitionCap => (one().limit(Fixed::new(2)).shed(), 0),
            Reason::PushedOut | Reason::QueueFull => (one().max_waiting(1), usize::from(reason == Reason::QueueFull)),
            Reason::QueueTimeout => (one().queue(1).max_wait(SOON), 0),
            Reason::RunCap => (one().queue(9).labels(Labels::new().max_waiting_per_run(1)), 1),
            other => panic!("{other} is new: how does one run into it?"),
        };
        let share = if reason == Reason::PartitionCap { percent(50).hard_cap() } else { percent(50) };
        let admission = builder.partition(Self::PARTITION, share).build().unwrap();
        let permit = admission.admit(Self::ticket()).await.unwrap();
        store.is(Mood::Failing);
        let mut waiters: Vec<_> = (0..waiting).map(|_| tokio::spawn(admission.admit(Self::ticket()))).collect();
        eventually("the line is full", || admission.snapshot().waiting == waiting).await;
        if reason == Reason::Draining {
            admission.drain(DrainMode::RejectWaiting);
        }
        if reason == Reason::PushedOut {
            let admission = admission.clone();
            waiters.push(tokio::spawn(async move {
                eventually("there is somebody to push out", || admission.snapshot().waiting == 1).await;
                admission.admit(Self::ticket().criticality(Criticality::CriticalPlus)).await
            }));
        }
        Self { admission, deadline: (reason == Reason::Deadline).then_some("0.01"), permit, waiters }
    }

    fn ticket() -> Ticket<'static> {
        Ticket::new().partition(Self::PARTITION).label("loud").run("job-1")
    }

    fn classify(_: &RequestHead<'_>, ticket: &mut Ticket<'_>) {
        ticket.set_partition(Self::PARTITION);
        ticket.set_label("loud");
        ticket.set_run("job-1");
    }

    /// Whether the request was rejected for this reason, says the handle.
    async fn counted(self, reason: Reason) {
        let snapshot = self.admission.snapshot();
        let partition = snapshot.partition(Self::PARTITION).unwrap();
        assert_eq!(
            partition.rejected.iter().map(|(word, &count)| (&**word, count)).collect::<Vec<_>>(),
            [(reason.as_str(), 1)]
        );
        drop(self.permit);
        for waiter in self.waiters {
            drop(waiter.await.unwrap().unwrap());
        }
        eventually("nobody runs or waits", || crate::support::is_idle(&self.admission.snapshot())).await;
    }
}

/// A handle whose only slot is taken for good.
fn full() -> Admission {
    let admission = Admission::builder().limit(Fixed::new(1)).shed().build().unwrap();
    std::mem::forget(admission.try_admit(Ticket::new()).unwrap());
    admission
}

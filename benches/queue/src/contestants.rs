//! What one can wait for: a slot of ours, with or without a label, or a permit of tokio's semaphore.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tower_admission::{Admission, AdmissionBuilder, Labels, Permit, Rejection, Ticket, limit::Fixed, permit::Admit};

/// A line for a single slot.
pub trait Line: Sized + 'static {
    type Permit: Send + 'static;
    type Error: std::fmt::Debug + Send + 'static;
    type Wait: Future<Output = Result<Self::Permit, Self::Error>> + Send + Unpin + 'static;

    /// The wait of one more.
    fn wait(&self, number: usize) -> Self::Wait;

    /// Whether one more is turned away at once.
    fn turns_away(&self, number: usize) -> bool;
}

/// Longer than anything here takes. It is there so that each waiter has a deadline to be kept track of.
pub const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// A handle of ours.
#[derive(Debug)]
pub struct Ours {
    pub admission: Admission,
    labels: Vec<String>,
}

impl Ours {
    /// A line of this many places; those who wait there have so many different labels, or none.
    #[must_use]
    pub fn new(places: usize, labels: usize) -> Self {
        Self::with(places, labels, |builder| builder.max_wait(LONGEST_WAIT))
    }

    /// The same without labels and without a longest wait, so that there are no deadlines to keep track of.
    #[must_use]
    pub fn endless(places: usize) -> Self {
        Self::with(places, 0, |builder| builder)
    }

    /// The same with settings of one's own.
    #[must_use]
    pub fn with(places: usize, labels: usize, more: impl FnOnce(AdmissionBuilder) -> AdmissionBuilder) -> Self {
        let bounds = Labels::new().max_waiting(places).max_wait(LONGEST_WAIT);
        let builder = Admission::builder()
            .limit(Fixed::new(1))
            .queue(places)
            // Whoever finds the line full is turned away, rather than let wait at the gate.
            .admission_timeout(Duration::ZERO)
            .labels(bounds);
        let admission = more(builder).build().expect("the settings are valid");
        Self { admission, labels: (0..labels).map(|label| format!("label-{label}")).collect() }
    }

    #[must_use]
    pub fn ticket(&self, number: usize) -> Ticket<'_> {
        match self.labels.len() {
            0 => Ticket::new(),
            labels => Ticket::new().label(&*self.labels[number % labels]),
        }
    }
}

impl Line for Ours {
    type Permit = Permit;
    type Error = Rejection;
    type Wait = Admit;

    fn wait(&self, number: usize) -> Admit {
        self.admission.admit(self.ticket(number))
    }

    fn turns_away(&self, number: usize) -> bool {
        self.admission.try_admit(self.ticket(number)).is_err()
    }
}

/// Tokio's semaphore. Its line has no bound, no deadlines and no labels.
#[derive(Clone, Debug)]
pub struct Tokio(Arc<Semaphore>);

impl Default for Tokio {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Line for Tokio {
    type Permit = OwnedSemaphorePermit;
    type Error = AcquireError;
    type Wait = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

    fn wait(&self, _: usize) -> Self::Wait {
        Box::pin(Arc::clone(&self.0).acquire_owned())
    }

    fn turns_away(&self, _: usize) -> bool {
        self.0.try_acquire().is_err()
    }
}

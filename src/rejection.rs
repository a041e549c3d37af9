//! Why a request was not admitted.

use std::{error::Error, fmt, iter, sync::Arc, time::Duration};

use crate::Reason;

/// A request that was not admitted: reason, partition, and when to come back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rejection {
    pub(crate) reason: Reason,
    pub(crate) retry_after: Duration,
    pub(crate) partition: Arc<str>,
    pub(crate) bound: usize,
    pub(crate) responds_empty: bool,
    pub(crate) timed_out: bool,
    /// Whether the deadline of the request is over; otherwise it would only come too early.
    pub(crate) is_over: bool,
    /// Whether there is room for this very request then: jitter would only make it late.
    pub(crate) is_promised: bool,
    /// What is left of the caller's own deadline, if it came with one.
    pub(crate) time_left: Option<Duration>,
}

impl Rejection {
    /// Whether the request was rejected after its maximum wait. [`reason`](Self::reason) then names the rule that was
    /// full, or [`Reason::QueueTimeout`] or [`Reason::GateTimeout`] where no slot was free. The caller's own deadline
    /// is no such timeout.
    pub const fn timed_out(&self) -> bool {
        self.timed_out
    }

    /// The text after the reason.
    pub(crate) const fn supplement(&self) -> &'static str {
        match self.reason {
            Reason::GateTimeout | Reason::QueueTimeout => "",
            Reason::Deadline if self.time_left.is_none() => {
                ", which is the patience of this server: it came without one"
            }
            _ if self.timed_out => ", and the maximum wait is over",
            _ => "",
        }
    }

    /// Whether the rule that was full says [`RespondEmpty`](crate::WhenFull::RespondEmpty): the caller then gets an
    /// empty answer instead of a rejection.
    pub const fn responds_empty(&self) -> bool {
        self.responds_empty
    }

    /// Returns the rejection in a chain of errors: the error itself, its source, the source of that, and so on. So no type of an
    /// error around it has to be known.
    ///
    /// ```
    /// use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
    /// use tower_admission::{Admission, AdmissionLayer, Rejection, Ticket};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BoxError> {
    /// let admission = Admission::builder().limit(1).shed().build()?;
    /// let service = ServiceBuilder::new()
    ///     .timeout(std::time::Duration::from_secs(5))
    ///     .layer(AdmissionLayer::new(&admission).generic())
    ///     .service(service_fn(async |number: u32| Ok::<_, BoxError>(number + 1)));
    ///
    /// let _taken = admission.try_admit(Ticket::new())?;
    /// let error = service.oneshot(1).await.unwrap_err();
    /// assert_eq!(Rejection::find(&*error).map(Rejection::bound), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn find<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Self> {
        iter::successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref())
    }

    /// The reason.
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// The name of the partition that the request belongs to.
    pub fn partition(&self) -> &str {
        &self.partition
    }

    /// The bound that was in the way, in requests: the present limit, or the bound of the partition, label or rule that
    /// [`reason`](Self::reason) names.
    pub const fn bound(&self) -> usize {
        self.bound
    }

    /// The time after which a slot is likely to be free, estimated from the measured drain rate. A rate is known: each request that it
    /// refuses is told a start of its own, up to ten minutes ahead; further ones share these.
    ///
    /// Without jitter. Add some before you send it to clients, so that they don't return together; the built-in
    /// responses do.
    pub const fn retry_after(&self) -> Duration {
        self.retry_after
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reason, supplement) = (self.reason, self.supplement());
        write!(f, "not admitted ({reason}, partition {}): {}{supplement}", self.partition, reason.describe())
    }
}

impl Error for Rejection {}

#[cfg(test)]
mod tests {
    use super::*;

    impl Rejection {
        pub(crate) const fn new(reason: Reason, retry_after: Duration, partition: Arc<str>, bound: usize) -> Self {
            Self {
                reason,
                retry_after,
                partition,
                bound,
                responds_empty: false,
                timed_out: false,
                is_over: false,
                is_promised: false,
                time_left: None,
            }
        }

        /// The same for a request whose maximum wait is over.
        pub(crate) const fn after_a_wait(mut self, timed_out: bool) -> Self {
            self.timed_out = timed_out;
            self
        }
    }
}

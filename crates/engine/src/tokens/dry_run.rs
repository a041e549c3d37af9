//! Dry run: what would have become of a request that runs because decisions don't bind, on its way to its trace.
//!
//! The outcome travels with the request, since between the decision and the moment at which the caller learns of it
//! other requests are decided as well.

use crate::Reason;

/// What would have become of a request, if not what did: what it would have waited for, or why it would have been rejected.
#[derive(Clone, Copy, Debug, Default)]
pub struct DryRunOutcome(Option<Result<Reason, Reason>>);

impl DryRunOutcome {
    #[doc(hidden)]
    pub const NOTHING: Self = Self(None);

    /// Returns the outcome of a request that would have found a place to wait for what this reason says, or a reason to be rejected.
    pub(crate) const fn have(place: Result<Reason, Reason>) -> Self {
        Self(Some(place))
    }

    /// Returns what became of the request, in a word, and why it would not have been admitted.
    pub const fn outcome(self) -> (&'static str, Option<Reason>) {
        match self.0 {
            None => ("admitted", None),
            Some(Ok(reason)) => ("would_queue", Some(reason)),
            Some(Err(reason)) => ("would_reject", Some(reason)),
        }
    }
}

const _: () = assert!(size_of::<DryRunOutcome>() == 2, "it takes next to no room");

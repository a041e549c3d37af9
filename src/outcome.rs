//! How a request ended, in the words of the control law.

/// How a request that was admitted ended.
///
/// The limit is learned from these, so the question is never "did it succeed" but "what does it say about load".
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// It ended before it could answer: the client left, a timeout dropped it, the service returned an error.
    ///
    /// Its elapsed time is a lower bound on the RTT it would have had. A law reads it as slow where that bound is
    /// already slow, and not at all otherwise: neither silence (a server too slow for its clients would look idle)
    /// nor failure (impatient clients would collapse the limit).
    Cancelled,
    /// Says nothing about load; no sample is taken.
    Ignore,
    /// The service said that it has too much to do, or ran into a deadline.
    Overload,
    /// Answered in a time that is representative.
    Success,
}

//! How a request ended, in the words of the control law.

/// How a request that was admitted ended.
///
/// The limit is learned from outcomes, so the question is not "did it succeed" but "what does it say about load".
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The request ended before its answer: the client left, a timeout dropped it, the service returned an error.
    ///
    /// The elapsed time is a lower bound of the round-trip time. A law reads the request as slow where that bound is
    /// already slow, and ignores it otherwise. Ignoring all would make a server that is too slow for its clients look
    /// idle; reading all as failures would let impatient clients collapse the limit.
    Cancelled,
    /// The request says nothing about load; no sample is taken.
    Ignore,
    /// The service reported an overload, or ran into a deadline.
    Overload,
    /// The request was answered in a representative time.
    Success,
}

impl Outcome {
    /// Returns the outcome in a word, as captures have it.
    #[doc(hidden)]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Ignore => "ignore",
            Self::Overload => "overload",
            Self::Success => "success",
        }
    }
}

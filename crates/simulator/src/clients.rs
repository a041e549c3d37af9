//! What clients do: when they give up, and whether they come back.

use super::{node::Node, random::Stream};

#[derive(Clone, Debug)]
pub struct Clients {
    /// `u64::MAX` is for ever.
    pub deadline: u64,
    /// Whether the server is told the deadline.
    pub sends_deadline: bool,
    /// The part of requests whose clients leave early, and when. They are not counted, and don't come back.
    pub leavers: f64,
    pub leave_after: (u64, u64),
    pub retries: u32,
    pub backoff: u64,
    pub max_backoff: u64,
    pub jitter: bool,
    /// Whether they wait at least as long as a rejection says.
    pub heeds_retry_after: bool,
}

impl Clients {
    pub fn read(node: Node<'_>) -> Self {
        let backoff = node.time("backoff").unwrap_or(100_000_000);
        let clients = Self {
            deadline: node.time("deadline").unwrap_or(u64::MAX),
            sends_deadline: node.flag("sends_deadline").unwrap_or(true),
            leavers: node.number("leavers", 0.0..=1.0).unwrap_or(0.0),
            leave_after: node.span("leave_after").unwrap_or((10_000_000, 50_000_000)),
            retries: node.count("retries", 0..=100).and_then(|it| u32::try_from(it).ok()).unwrap_or(0),
            backoff,
            max_backoff: node.time("max_backoff").unwrap_or(10_000_000_000).max(backoff),
            jitter: node.flag("jitter").unwrap_or(true),
            heeds_retry_after: node.flag("heeds_retry_after").unwrap_or(false),
        };
        node.finish();
        clients
    }

    /// When a client leaves, counted from its request; the same for each policy.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "a time")]
    pub fn leaves_early(&self, seed: u64, tenant: usize, number: u64) -> Option<u64> {
        if self.leavers <= 0.0 {
            return None;
        }
        let mut stream = Stream::new(seed, u64::MAX - tenant as u64, number);
        let (from, to) = self.leave_after;
        (stream.uniform() < self.leavers).then(|| from + (stream.uniform() * to.saturating_sub(from) as f64) as u64)
    }

    /// The longest pause before the retry after `attempt`, counted from 0.
    pub fn pause(&self, attempt: u32) -> u64 {
        self.backoff.saturating_mul(1u64.checked_shl(attempt).unwrap_or(u64::MAX)).min(self.max_backoff)
    }
}

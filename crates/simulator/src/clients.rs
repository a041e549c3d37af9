//! What clients do: when they give up, and whether they come back.

use super::node::Node;

#[derive(Clone, Debug)]
pub struct Clients {
    /// `u64::MAX` is for ever.
    pub deadline: u64,
    /// Whether the server is told the deadline.
    pub sends_deadline: bool,
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
            retries: node.count("retries", 0..=100).and_then(|it| u32::try_from(it).ok()).unwrap_or(0),
            backoff,
            max_backoff: node.time("max_backoff").unwrap_or(10_000_000_000).max(backoff),
            jitter: node.flag("jitter").unwrap_or(true),
            heeds_retry_after: node.flag("heeds_retry_after").unwrap_or(false),
        };
        node.finish();
        clients
    }

    /// The longest pause before the retry after `attempt`, counted from 0.
    pub fn pause(&self, attempt: u32) -> u64 {
        self.backoff.saturating_mul(1u64.checked_shl(attempt).unwrap_or(u64::MAX)).min(self.max_backoff)
    }
}

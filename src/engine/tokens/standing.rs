//! What a label brings to the queue.

/// How far a flow of weight 1 moves on with each turn.
pub(crate) const STRIDE: u64 = 1 << 20;

/// What a label brings to the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) weight: u32,
    /// The start tag that it left with.
    pub(crate) start: u64,
    pub(crate) throttled: bool,
}

/// Where a flow of this weight goes on after its label was served without having to wait: one turn behind.
pub(crate) const fn one_turn(start: u64, weight: u32) -> u64 {
    start.saturating_add(STRIDE / weight as u64)
}

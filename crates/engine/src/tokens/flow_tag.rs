//! What a label brings to its flow in the queue.

/// Distance by which a flow of weight 1 moves on with each turn.
pub(crate) const STRIDE: u64 = 1 << 20;

/// Start tag of a label that was never served: its first turn comes one turn behind, as if it had just been served. Names cost
/// nothing, so a caller that takes a new one for each request would else go before all labels that have had a turn.
pub(crate) const NEVER_SERVED: u64 = u64::MAX;

/// What a label brings to its flow in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowTag {
    pub(crate) weight: u32,
    /// Start tag with which its flow left.
    pub(crate) start: u64,
    pub(crate) throttled: bool,
}

/// Returns where a flow of this weight goes on after its label was served without having to wait: one turn behind.
pub(crate) const fn one_turn(start: u64, weight: u32) -> u64 {
    start.saturating_add(STRIDE / weight as u64)
}

//! What a label brings to its flow in the queue.

/// Distance by which a flow of weight 1 moves on with each turn.
pub(crate) const STRIDE: u64 = 1 << 20;

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

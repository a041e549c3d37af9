//! Lines to wait in, and waiters for them. What the programs of this crate share.

pub mod contestants;
pub mod tasks;
pub mod waiters;

/// The lengths of a line that are compared.
pub const LENGTHS: [usize; 4] = [100, 1_000, 10_000, 100_000];

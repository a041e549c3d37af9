//! What a request costs: the contestants, and the loop that sends requests through them.

pub mod contestants;
pub mod drive;
pub mod real;
pub mod router;
pub mod rows;
pub mod rules;
mod signals;

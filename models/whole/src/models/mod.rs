//! The models.

pub mod turns;

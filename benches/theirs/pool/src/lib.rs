//! What two programs share: this one, and `culprit`.

mod backend;
pub mod glue;

pub use backend::{Redis, work};

//! Rules that all instances share: asking the store that counts them.

mod limiter;
mod outage;

pub(in crate::runtime) use limiter::{Desk, Question};

//! Words that the engine has as well.

mod histogram;
mod on_store_failure;

pub use self::{histogram::Histogram, on_store_failure::OnStoreFailure};

//! Rules that all instances share: asking the store that counts them.

mod limiter;
mod outage;
mod request;
mod store_listener;

pub(in crate::runtime) use self::{limiter::RemoteLimiter, request::RemoteRequest};

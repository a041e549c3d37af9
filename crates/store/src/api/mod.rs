//! Requests to a store, and its answers.

mod answer;
mod error;
mod health;
mod key;
mod request;
mod token;

pub(super) use self::request::Rule;
pub use self::{
    answer::{
        Acquired, Allotment, AllotmentRequest, DrawOutcome, Full, Lease, LockAnswer, LockRequest, Locked, Notice,
        Notices, PendingRelease, Released, Renewed, StoreTime,
    },
    error::StoreError,
    health::Health,
    key::{Key, Keys},
    request::{Claim, Claims, Request},
    token::Token,
};

//! The whole library under loom, and with the feature `shuttle` under shuttle. See the README of `models`.
//!
//! The library's sources are explored as they ship; the build script sends what they take from `std::sync` and
//! `tokio::time` to [`std_here`] and [`tokio_here`]. `Arc` and `Weak` stay those of `std`: their counts are no choice of
//! the explorer, what threads do with them between two steps is.

#![allow(missing_docs, missing_debug_implementations, reason = "made for the models next to it")]
#![allow(clippy::all, unused_imports, dead_code, unexpected_cfgs, unreachable_pub, unnameable_types, rustdoc::all)]

include!(concat!(env!("OUT_DIR"), "/shipped/root.rs"));

pub mod explore;
pub mod models;
#[path = "stand_in/std.rs"]
pub mod std_here;
#[path = "stand_in/tokio.rs"]
pub mod tokio_here;

pub use crate::{
    admission::{AdmissionLayer, AdmissionService},
    config::{Cap, ClassLimits, Labels, Rate, Rules, Share, percent},
    engine::{
        BuildError, Criticality, Outcome, Problem, Reason, Timestamp,
        plan::{Discipline, Mode, PartitionMode},
        rules::{RateMode, WhenFull},
    },
    rejection::Rejection,
    runtime::{Admission, AdmissionBuilder, DrainMode, Permit, WorkerReport},
    store::Clock,
    ticket::Ticket,
};

//! What each target does with its input: no panic, and the checks in its body.

pub mod engine;
pub mod requests;
pub mod resp;
pub mod texts;

// What the shipped `reply.rs` names.
use tower_admission::store::{StoreError, StoreTime};

/// A target: its name, and what it does with its input.
pub type Target = (&'static str, fn(&[u8]));

/// Each target has a corpus of its name.
pub const TARGETS: &[Target] = &[
    ("capture", texts::capture),
    ("engine", engine::engine),
    ("environment", texts::environment),
    ("grpc_timeout", requests::grpc_timeout),
    ("introspection", requests::introspection),
    ("json", texts::json),
    ("requests", requests::requests),
    ("resp", resp::resp),
    ("scenario", texts::scenario),
    ("toml", texts::toml),
];

//! The state of a handle over HTTP: JSON for programs, a page for people.
//!
//! A service for a listener of its own. Adding a layer exposes nothing.
//!
//! ```text
//! request ─▶ http/query (what is wanted) ─▶ look (a turn or several) ─▶ wire (what is told) ─▶ http/reply
//! ```

mod http;
mod look;
pub(crate) mod wire;

pub use self::http::{Introspection, IntrospectionFuture};

//! A simulator for overload: the handle of this crate in virtual time, between invented clients and an invented server.

pub(crate) mod arrivals;
mod attempt;
pub(crate) mod captured;
pub(crate) mod expect;
pub(crate) mod law;
pub(crate) mod metrics;
pub(crate) mod node;
pub(crate) mod oracle;
pub(crate) mod policy;
mod queue;
pub(crate) mod random;
pub(crate) mod record;
pub(crate) mod scenario;
pub(crate) mod server;
pub(crate) mod tenants;
pub(crate) mod timeline;
pub(crate) mod what_if;
pub(crate) mod windows;
pub(crate) mod world;

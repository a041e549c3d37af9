//! What the limit should be.

pub(crate) mod law;
pub(crate) mod rtt_by_class;

use self::{law::Law, rtt_by_class::Classes};
use crate::engine::verbs::ShadowLaw;

/// The laws.
#[derive(Debug)]
pub(crate) struct Controller {
    pub(crate) law: Box<dyn Law>,
    pub(crate) law_panics: u64,
    pub(crate) shadow: ShadowLaw,
    pub(crate) classes: Classes,
}

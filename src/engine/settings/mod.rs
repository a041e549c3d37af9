//! Rules as users write them, before they are found to be valid.

pub(crate) mod limits;
pub(crate) mod rules;

pub use self::{
    limits::{Cap, ClassLimits, Rate},
    rules::Rules,
};

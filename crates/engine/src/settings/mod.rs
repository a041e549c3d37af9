//! Rules as users write them, before they are found to be valid.

pub mod limits;
pub mod rules;

pub use self::{
    limits::{Cap, ClassLimits, Rate},
    rules::Rules,
};

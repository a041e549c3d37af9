//! Whether settings can be used, and what of them is likely to be a mistake.

mod idle;
mod plan;
mod warnings;

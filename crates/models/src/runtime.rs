//! The copies of the quiet path: the shipped one, and one for each mistake.

include!(concat!(env!("OUT_DIR"), "/variants.rs"));

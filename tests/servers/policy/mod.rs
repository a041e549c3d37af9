//! What is not subject to admission, what is learned from, and how long is waited.

mod held;
mod learning;
mod modes;
mod unlearned;
mod waits;

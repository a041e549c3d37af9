//! Real servers on loopback: axum, hyper and tonic, and what becomes of slots however a request ends.

mod chaos;
#[cfg(unix)]
mod draining;
mod generic;
mod handed_over;
mod health;
mod idle_clones;
mod labels;
mod leaving;
mod nested;
mod one_limit;
mod optional;
mod outlived;
mod panics;
mod policy;
mod release;
mod reload;
mod rules;
mod strangers;
mod streams;
mod transport;
mod uploads;
mod wire;

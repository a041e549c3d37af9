//! Configuration: what it means, what is wrong with it, and that nothing is lost on the way.

mod bad;
mod layers;
mod page;
mod round_trip;
mod schema;
mod source;
mod stars;
mod store;

use std::{env, fs, path::Path};

/// Compares a text with the file that keeps it; `UPDATE_SNAPSHOTS=1` writes the file instead.
pub(crate) fn snapshot(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(path, text).unwrap();
        return;
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    assert!(kept == text, "{file} is out of date; UPDATE_SNAPSHOTS=1 writes it anew. Now it is:\n{text}");
}

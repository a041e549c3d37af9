//! The pages: that the architecture fits a reader's patience.

use std::fs;

use super::root;

/// Lines of the page on the architecture.
const MOST_LINES: usize = 200;

#[test]
fn the_page_on_the_architecture_is_short() {
    let text = fs::read_to_string(root().join("src/docs/architecture.md")).unwrap();
    assert!(text.lines().count() <= MOST_LINES, "{} lines", text.lines().count());
}

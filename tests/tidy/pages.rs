//! The pages: where they are, and that the architecture fits a reader's patience.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Lines of the page on the architecture.
const MOST_LINES: usize = 200;

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All pages below a folder, but what is built or checked out elsewhere.
pub(super) fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !["target", ".git", "node_modules"].contains(&name.as_str()) {
            found.extend(pages(&path));
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found
}

#[test]
fn the_page_on_the_architecture_is_short() {
    let text = fs::read_to_string(root().join("src/docs/architecture.md")).unwrap();
    assert!(text.lines().count() <= MOST_LINES, "{} lines", text.lines().count());
}

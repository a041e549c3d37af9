//! The pages: links between files lead somewhere, and the architecture fits a reader's patience.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Lines of the page on the architecture.
const MOST_LINES: usize = 200;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All pages below a folder, but what is built or checked out elsewhere.
fn pages(folder: &Path) -> Vec<PathBuf> {
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

/// The links of a page that name a file and lead nowhere.
fn dead(page: &Path, text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let files = targets.map(|target| target.split('#').next().unwrap_or_default());
    let files = files.filter(|target| !target.is_empty() && !target.contains("::") && !target.contains(' '));
    let files = files.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    let folder = page.parent().unwrap();
    files.filter(|target| !folder.join(target).exists()).map(|it| format!("{}: {it}", page.display())).collect()
}

#[test]
fn links_between_files_lead_somewhere() {
    let all = pages(root());
    let dead: Vec<_> = all.iter().flat_map(|page| dead(page, &fs::read_to_string(page).unwrap())).collect();
    assert!(dead.is_empty(), "{dead:#?}");
    assert!(all.len() > 15, "{} pages were read", all.len());
}

#[test]
fn a_dead_link_is_found() {
    let page = root().join("README.md");
    let text = "[a](Cargo.toml) [b](dashboards) [c](https://x.y) [d](src/lib.rs#top) [e](#here) [f](crate::docs)";
    assert_eq!(dead(&page, text), [format!("{}: dashboards", page.display())]);
}

#[test]
fn the_page_on_the_architecture_is_short() {
    let text = fs::read_to_string(root().join("src/docs/architecture.md")).unwrap();
    assert!(text.lines().count() <= MOST_LINES, "{} lines", text.lines().count());
}

//! The public API with all features, held in `api.txt`.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p admission-e2e --test e2e public_api` writes it anew: a change of it goes into
//! `CHANGELOG.md`. It is read from the sources, from `src/lib.rs` on, wherever files are, also in the crates that it exports. Not held: what a name in a
//! signature means (it is printed as it is written), auto traits, and impls of traits that macros write for types which are named elsewhere.

mod controls;
mod list;
mod macros;
mod rules;
mod text;
mod tree;

use std::{env, fs, path::Path};

#[test]
fn the_public_api_is_what_was_agreed_on() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("../..");
    let listed = list::list(&|file| {
        let file = match file.strip_prefix("tower_admission_").and_then(|it| it.split_once('/')) {
            Some((part, file)) => root.join(format!("crates/{part}/src/{file}")),
            None => root.join("src").join(file),
        };
        fs::read_to_string(file).ok()
    });
    let kept_in = here.join("tests/public_api/api.txt");
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(kept_in, listed).unwrap();
        return;
    }
    let kept = fs::read_to_string(kept_in).unwrap_or_default();
    let changes = changes(&kept, &listed);
    assert!(
        changes.is_empty(),
        "the public API changed; if it should, say so in CHANGELOG.md, and UPDATE_SNAPSHOTS=1 writes \
         crates/e2e/tests/public_api/api.txt anew:\n{}",
        changes.join("\n")
    );
}

/// A type may gain variants and fields in a minor version: the compiler holds this for the facade, but allows its parts
/// what they need of each other.
#[test]
fn types_that_may_grow_say_so() {
    let listed = include_str!("api.txt");
    // It has two cases by its meaning: a value that is set, or derived.
    assert_eq!(exhaustive(listed), ["enum configuration::Derived<T>"]);
    let closed = listed.replace(" #[non_exhaustive]", "");
    assert!(exhaustive(&closed).len() > 50, "control: none of them says so");
}

/// The enums, and the structs without a private field, that callers can take apart or make themselves.
fn exhaustive(listed: &str) -> Vec<&str> {
    let paragraphs = listed.split("\n\n").map(str::trim_end).filter_map(|it| it.split_once('\n'));
    let open = paragraphs.filter(|(head, members)| {
        let all_public = || members.contains("    field ") && !members.contains("    field _: private");
        (head.starts_with("enum ") || head.starts_with("struct ") && all_public())
            && !head.contains("#[non_exhaustive]")
    });
    open.map(|(head, _)| head).collect()
}

/// Each line that went (`-`) or came (`+`), with the item that it belongs to.
fn changes(kept: &str, listed: &str) -> Vec<String> {
    fn full(text: &str) -> Vec<String> {
        let mut item = "";
        let lines = text.lines().filter(|line| !line.is_empty()).map(|line| {
            if line.starts_with(' ') {
                return format!("{item}: {}", line.trim());
            }
            item = line;
            line.to_owned()
        });
        lines.collect()
    }
    let (kept, listed) = (full(kept), full(listed));
    let went = kept.iter().filter(|line| !listed.contains(line)).map(|line| format!("- {line}"));
    let came = listed.iter().filter(|line| !kept.contains(line)).map(|line| format!("+ {line}"));
    went.chain(came).collect()
}

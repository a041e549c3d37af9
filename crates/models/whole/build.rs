//! Copies the library as it ships, and puts other locks, atomics and timers into the place of its own.
//!
//! Paths that begin with `std::` and `tokio::` go through `crate::std_here` and `crate::tokio_here` in the copy. All
//! deliberate mistakes are in the same copy, each behind a question whether it is the one that is made.

use std::{env, fmt::Write, fs, path::Path};

#[path = "mistakes.rs"]
mod mistakes;

use mistakes::{EXCHANGES, MISTAKES};

/// The rooms of the library, without those that need what this package doesn't build.
const ROOMS: &[(&str, &str)] = &[
    ("admission", "pub"),
    ("capacity", "pub"),
    ("clock", "pub"),
    ("config", "pub"),
    ("engine", "pub"),
    ("keys", "pub"),
    ("rejection", "pub"),
    ("runtime", "pub"),
    ("store", "pub"),
    ("ticket", "pub"),
];

/// Crates of the library, which are rooms here.
const PARTS: [(&str, &str); 3] =
    [("config", "../../config/src"), ("engine", "../../engine/src"), ("store", "../../store/src")];

/// Where macros are that another room calls.
const MACROS: [(&str, &str); 6] = [
    ("config/declare.rs", "pub(crate) use setters;\n"),
    ("config/settings/layer.rs", "pub(crate) use layer_settings;\n"),
    ("config/lib.rs", "pub(crate) use self::{declare::setters, settings::layer::layer_settings};\n"),
    ("engine/words/from_str.rs", "pub(crate) use codes;\n"),
    ("engine/words/mod.rs", "pub(crate) use self::from_str::codes;\n"),
    ("engine/lib.rs", "pub(crate) use self::words::codes;\n"),
];

/// Sends the paths into a crate through a module of this one.
fn through(text: &str, from: &str, to: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1_024);
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let before = rest[..at].chars().next_back();
        let is_path = !before.is_some_and(|it| it.is_alphanumeric() || it == '_' || it == ':');
        out += &rest[..at];
        out += if is_path { to } else { from };
        rest = &rest[at + from.len()..];
    }
    out + rest
}

fn exchange(file: &str, mut text: String) -> String {
    for (part, _) in PARTS {
        if file.strip_prefix(part).is_some_and(|rest| rest.starts_with('/')) {
            text = through(&text, "crate::", &format!("crate::{part}::"));
        }
    }
    // A macro that is exported would stand at the root of this crate.
    text = text.replace("#[macro_export]\n", "");
    for (_, line) in MACROS.iter().filter(|(of, _)| *of == file) {
        text += line;
    }
    for mistake in MISTAKES.iter().filter(|mistake| mistake.file == file) {
        let is_made = format!("crate::explore::makes({:?})", mistake.name);
        for (right, wrong) in mistake.edits {
            let found = text.matches(right).count();
            assert_eq!(found, 1, "{file} has changed: bring the mistake {} in mistakes.rs up to date", mistake.name);
            text = text.replace(right, &wrong.replace("MADE", &is_made));
        }
    }
    for (part, _) in PARTS {
        text = through(&text, &format!("tower_admission_{part}::"), &format!("crate::{part}::"));
    }
    text = through(&text, "std::", "crate::std_here::");
    text = through(&text, "tokio::", "crate::tokio_here::");
    for (_, right, here) in EXCHANGES.iter().filter(|(of, ..)| *of == file) {
        assert_eq!(text.matches(right).count(), 1, "{file} has changed: `{right}` is to be exchanged in it");
        text = text.replace(right, here);
    }
    text
}

fn copy(from: &Path, to: &Path, below: &str) {
    fs::create_dir_all(to).expect("a folder is made");
    for entry in fs::read_dir(from).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|it| it.to_str()).expect("a name").to_owned();
        let here = format!("{below}{name}");
        if path.is_dir() {
            copy(&path, &to.join(&name), &format!("{here}/"));
        } else if name.ends_with(".rs") {
            let text = exchange(&here, fs::read_to_string(&path).expect("a file"));
            fs::write(to.join(&name), text).expect("the file is written");
        } else {
            fs::copy(&path, to.join(&name)).expect("the file is copied");
        }
    }
}

fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").expect("Cargo says where");
    let to = env::var("OUT_DIR").expect("Cargo says where");
    let (shipped, to) = (Path::new(&here).join("../../../src"), Path::new(&to).join("shipped"));
    if to.exists() {
        fs::remove_dir_all(&to).expect("the last copy is removed");
    }
    copy(&shipped, &to, "");
    for (part, from) in PARTS {
        let from = Path::new(&here).join(from);
        copy(&from, &to.join(part), &format!("{part}/"));
        println!("cargo::rerun-if-changed={}", from.display());
    }
    let mut root = String::new();
    for (room, visibility) in ROOMS {
        let files = [format!("{room}.rs"), format!("{room}/mod.rs"), format!("{room}/lib.rs")];
        let file = files.iter().map(|file| to.join(file)).find(|it| it.exists());
        let file = file.unwrap_or_else(|| panic!("there is no room {room}"));
        writeln!(root, "#[path = {file:?}]\n{visibility} mod {room};").expect("a string grows");
    }
    // Needs nothing but two types; its own room needs the client library of Redis.
    writeln!(root, "#[path = {:?}]\npub mod breaker;", to.join("store/redis/breaker.rs")).expect("a string grows");
    fs::write(to.join("root.rs"), root).expect("the file is written");
    println!("cargo::rerun-if-changed={}", shipped.display());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=mistakes.rs");
}

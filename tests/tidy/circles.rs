//! Files that import each other in a circle.
//!
//! A file imports the file that defines what it names, whoever hands that name on. A folder's `mod.rs` and what is in the
//! folder are one house: imports between them don't count.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{code, is_test, sources};

/// The names that lead to a module, from the root of its crate on.
type Names = Vec<String>;

/// The code of all modules below a folder, without tests.
pub(crate) fn modules(folder: &Path) -> BTreeMap<Names, String> {
    let named = sources(folder).into_iter().filter(|path| !is_test(path)).map(|path| {
        let relative = path.strip_prefix(folder).unwrap().with_extension("");
        let mut names: Names = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        names.retain(|name| name != "mod" && name != "lib");
        (names, code(&fs::read_to_string(path).unwrap()))
    });
    named.collect()
}

/// The modules that import each other in circles.
pub(crate) fn circles(modules: &BTreeMap<Names, String>) -> Vec<String> {
    let uses: Uses = modules.iter().map(|(names, code)| (names.clone(), used(code))).collect();
    let mut imports: BTreeMap<&Names, BTreeSet<&Names>> = BTreeMap::new();
    for (module, code) in modules {
        let imported = uses[module].iter().filter(|it| !it.is_public).map(|it| it.path.clone());
        for path in imported.chain(mentioned(code)) {
            let target = absolute(module, &path).and_then(|path| defining(modules, &uses, &path, 9));
            let others = target.filter(|it| !it.starts_with(module) && !module.starts_with(it));
            imports.entry(module).or_default().extend(others);
        }
    }
    let returns = |module: &&&Names| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![**module]);
        while let Some(at) = next.pop() {
            next.extend(imports.get(at).into_iter().flatten().filter(|&&it| seen.insert(it)));
        }
        seen.contains(**module)
    };
    imports.keys().filter(returns).map(|names| names.join("::")).collect()
}

/// What a `use` brings in, and the name that it gets.
pub(super) struct Use {
    pub(super) path: Names,
    name: String,
    is_public: bool,
}

type Uses = BTreeMap<Names, Vec<Use>>;

pub(super) fn used(code: &str) -> Vec<Use> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some((statement, after)) = next_use(rest) {
        rest = after;
        let (head, tree) = statement.split_once("use ").unwrap();
        let tree: String = tree.replace(" as ", "@").split_whitespace().collect();
        for path in expand(&tree) {
            let (path, alias) = path.split_once('@').unwrap_or((&path, ""));
            let path: Names = path.split("::").map(str::to_owned).collect();
            let name = if alias.is_empty() { path.last().unwrap() } else { alias };
            found.push(Use { name: name.to_owned(), is_public: head.contains("pub"), path });
        }
    }
    found
}

/// The next `use` with all that stands before it in its line, and the code after it.
fn next_use(code: &str) -> Option<(&str, &str)> {
    let starts = code.match_indices("use ").map(|(at, _)| at);
    let is_one = |at: &usize| {
        let before = code[..*at].rsplit('\n').next().unwrap_or_default().trim();
        before.is_empty() || before == "pub" || (before.starts_with("pub(") && before.ends_with(')'))
    };
    let at = starts.into_iter().find(is_one)?;
    let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
    let end = at + code[at..].find(';')?;
    Some((&code[line..end], &code[end..]))
}

/// The paths of a tree such as `a::{b, c::{d, e}}`, which has no spaces.
fn expand(tree: &str) -> Vec<String> {
    let Some((before, inside)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let inside = inside.strip_suffix('}').unwrap_or(inside);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in inside.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 { parts.push(String::new()) } else { parts.last_mut().unwrap().push(c) }
    }
    let parts = parts.iter().filter(|part| !part.is_empty());
    parts.flat_map(|part| expand(part)).map(|path| format!("{before}{path}")).collect()
}

/// The paths in the code beside its `use`s.
pub(super) fn mentioned(code: &str) -> Vec<Names> {
    let starts = ["crate::", "super::"].iter().flat_map(|word| code.match_indices(word)).map(|(at, _)| at);
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let begins = starts.filter(|&at| !code[..at].ends_with(|c| is_path(c) || c == '$'));
    let paths = begins.map(|at| code[at..].split(|c| !is_path(c)).next().unwrap_or_default());
    // The stem of a tree of `use`s names no item.
    let paths = paths.filter(|path| !path.ends_with("::"));
    paths.map(|path| path.split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect()).collect()
}

/// A path from the root of the crate on; `None` for one that leads out of it.
fn absolute(module: &[String], path: &[String]) -> Option<Names> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    let (base, rest) = match path.first()?.as_str() {
        "crate" => (&[][..], &path[1..]),
        "self" => (module, &path[1..]),
        "super" => (&module[..module.len().checked_sub(ups)?], &path[ups..]),
        _ => return None,
    };
    Some([base, rest].concat())
}

/// The module that defines what a path names, for no more than `steps` modules that hand it on.
fn defining<'a>(modules: &'a BTreeMap<Names, String>, uses: &Uses, path: &[String], steps: usize) -> Option<&'a Names> {
    let (module, _) = (0..=path.len()).rev().find_map(|end| modules.get_key_value(&path[..end]))?;
    let Some(name) = path.get(module.len()).filter(|_| steps > 0) else { return Some(module) };
    let inside = |it: &Use| {
        // A path that begins with neither `crate` nor a module here leads to another crate.
        let own = [&module[..], &it.path[..1]].concat();
        let here = modules.keys().any(|it| it.starts_with(&own)).then(|| [&module[..], &it.path].concat());
        let path = absolute(module, &it.path).or(here);
        if it.name != "*" {
            return (it.name == *name).then(|| path.and_then(|path| defining(modules, uses, &path, steps - 1)));
        }
        let path = path?;
        let target = defining(modules, uses, &path[..path.len() - 1], 0)?;
        let kinds = ["const", "enum", "fn", "static", "struct", "trait", "type"];
        kinds.iter().any(|kind| modules[target].contains(&format!("{kind} {name}"))).then_some(Some(target))
    };
    uses[module].iter().find_map(inside).unwrap_or(Some(module))
}

#[test]
fn circles_are_found() {
    let found = |files: &[(&str, &str)]| {
        let names = |path: &str| path.split('/').filter(|it| !it.is_empty()).map(str::to_owned).collect();
        circles(&files.iter().map(|&(path, code)| (names(path), code.to_owned())).collect())
    };
    let pair = [("a", "use super::b::{self, B as C};"), ("b", "fn f() { crate::a::g() }"), ("c", "use crate::a;")];
    assert_eq!(found(&pair), ["a", "b"]);
    assert_eq!(found(&pair[1..]), [""; 0]);
    // A name that is handed on is its maker's, and a folder is one house.
    let folder = [
        ("x", "pub use self::one::One;\npub(crate) use two::*;"),
        ("x/one", "use super::{Two, two::Two as Other};"),
        ("x/two", "use crate::x::One;\npub struct Two;"),
        ("y", "use crate::{\n    x::{One, Two},\n    z,\n};"),
        ("z", "use crate::x::One;"),
    ];
    assert_eq!(found(&folder), ["x::one", "x::two"]);
    assert_eq!(
        found(&[
            ("a", "use crate::b::{Thing};"),
            ("b", "pub use c::Thing;\nuse crate::a;"),
            ("b/c", "pub struct Thing;")
        ]),
        [""; 0]
    );
    // Another crate under a name of its own, handed on by the root.
    let root = "pub use other::{self as part, Thing};\nuse crate::a;";
    assert_eq!(found(&[("", root), ("a", "use crate::{Thing, part::Else};")]), [""; 0]);
    assert_eq!(found(&[folder[0], ("x/one", "use super::Three;"), folder[2], folder[3], folder[4]]), [""; 0]);
}
